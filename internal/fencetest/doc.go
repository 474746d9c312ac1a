// Package fencetest tests package fence on real databases: PostgreSQL, MariaDB and SQLite, at each of their
// isolation levels. It is a module of its own, because the library does not need their drivers.
package fencetest
