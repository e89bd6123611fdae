"""The leaderboard app: screens in Streamlit over views, which are pure functions of aggregates."""
