package main

import (
	"context"
	"os"
	"path/filepath"
)

// What most code does: it takes every write, whoever sends it. It is here to show
// what happens then.

// PutUnfenced writes a job into a table that has no tokens.
func (t *Table) PutUnfenced(ctx context.Context, name, value string) error {
	_, err := t.db.ExecContext(ctx, `INSERT OR REPLACE INTO unfenced (name, value) VALUES (?, ?)`, name, value)
	return err
}

// GetUnfenced reads it.
func (t *Table) GetUnfenced(ctx context.Context, name string) (value string, err error) {
	err = t.db.QueryRowContext(ctx, `SELECT value FROM unfenced WHERE name = ?`, name).Scan(&value)
	return value, err
}

func unfencedFile(dir, name string) string { return filepath.Join(dir, name+".unfenced") }

// putUnfenced writes a file that nobody stands in front of.
func putUnfenced(dir, name, value string) error {
	return os.WriteFile(unfencedFile(dir, name), []byte(value), 0o644)
}

// getUnfenced reads it.
func getUnfenced(dir, name string) (string, error) {
	data, err := os.ReadFile(unfencedFile(dir, name))
	return string(data), err
}
