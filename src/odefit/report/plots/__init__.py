"""Pictures of results, with matplotlib; it is imported when the first one is asked for."""
