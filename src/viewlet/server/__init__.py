"""`viewlet serve`: one database over HTTP and over the PostgreSQL wire."""
