// Nothing lives here yet.
