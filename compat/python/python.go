// Package python runs the official Python client against the server, and reads a
// compressed streaming list with Python's zlib.
package python
