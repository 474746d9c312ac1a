// Package fencetest tries package fence on real databases: PostgreSQL, MariaDB and SQLite, at each of
// their isolation levels. It has a module of its own, as the library has no use for their drivers.
package fencetest
