package main

import (
	"context"
	"os"
	"path/filepath"
)

// Most code does this: it accepts every write from anybody. It is here to show what happens then.

// PutUnfenced writes a job into a table that has no tokens.
func (t *Table) PutUnfenced(ctx context.Context, name, value string) error {
	_, err := t.db.ExecContext(ctx, `INSERT OR REPLACE INTO unfenced (name, value) VALUES (?, ?)`, name, value)
	return err
}

// GetUnfenced reads a job from that table.
func (t *Table) GetUnfenced(ctx context.Context, name string) (value string, err error) {
	err = t.db.QueryRowContext(ctx, `SELECT value FROM unfenced WHERE name = ?`, name).Scan(&value)
	return value, err
}

func unfencedFile(dir, name string) string { return filepath.Join(dir, name+".unfenced") }

// putUnfenced writes a file without a guard in front.
func putUnfenced(dir, name, value string) error {
	return os.WriteFile(unfencedFile(dir, name), []byte(value), 0o644)
}

// getUnfenced reads that file.
func getUnfenced(dir, name string) (string, error) {
	data, err := os.ReadFile(unfencedFile(dir, name))
	return string(data), err
}
