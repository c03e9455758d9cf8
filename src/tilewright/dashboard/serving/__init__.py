"""The dashboard's web server: access control, login, and limits of connections that no single client can use up."""
