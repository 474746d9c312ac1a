package fence

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/elector-go/elector"
)

// DefaultTable is the table's name if [Fence.Table] is "".
const DefaultTable = "elector_fence"

// longest is the maximum length of a name in bytes. MySQL's indexes have such a limit.
const longest = 255

// Schema returns the statement that makes the table if it does not exist. table is as in [Fence.Table].
// The statement is the same in all versions of this package, or the changelog says how to migrate.
//
// The names are compared byte by byte: otherwise MySQL would treat /jobs, /Jobs and "/jobs " as equal.
func Schema(dialect Dialect, table string) (string, error) {
	quoted, err := dialect.quote(table)
	if err != nil {
		return "", err
	}
	columns := ""
	switch dialect {
	case PostgreSQL:
		columns = `(name text COLLATE "C" PRIMARY KEY, token bigint NOT NULL CHECK (token > 0))`
	case MySQL:
		columns = `(name VARBINARY(255) PRIMARY KEY, token BIGINT NOT NULL CHECK (token > 0)) ENGINE=InnoDB`
	case SQLite:
		columns = `(name TEXT PRIMARY KEY NOT NULL, token INTEGER NOT NULL CHECK (token > 0))`
	}
	return "CREATE TABLE IF NOT EXISTS " + quoted + " " + columns, nil
}

// CreateTable makes the table if it does not exist. All candidates may call it at the same time.
func (f Fence) CreateTable(ctx context.Context, db *sql.DB) error {
	statement, err := Schema(f.Dialect, f.Table)
	if err != nil {
		return err
	}
	if _, err = db.ExecContext(ctx, statement); err == nil {
		return nil
	}
	// If two make it at the same time, PostgreSQL's IF NOT EXISTS fails for one of them with a violated
	// constraint. That one now finds the table.
	if _, err = db.ExecContext(ctx, statement); err != nil {
		return fmt.Errorf("fence: create %s: %w", f.table(), err)
	}
	return nil
}

func (f Fence) table() string { return cmp.Or(f.Table, DefaultTable) }

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`) // PostgreSQL truncates names longer than 63 bytes

// quote checks and quotes the table's name.
func (d Dialect) quote(table string) (string, error) {
	mark := `"`
	switch d {
	case PostgreSQL, SQLite:
	case MySQL:
		mark = "`"
	default:
		return "", fmt.Errorf("fence: %w: dialect %v", elector.ErrConfig, d)
	}
	table = cmp.Or(table, DefaultTable)
	parts := strings.Split(table, ".")
	for i, p := range parts {
		if !identifier.MatchString(p) || i > 1 {
			return "", fmt.Errorf("fence: %w: table %q: not one or two plain identifiers", elector.ErrConfig, table)
		}
		parts[i] = mark + p + mark
	}
	return strings.Join(parts, "."), nil
}

func checkName(name string) error {
	if name == "" || len(name) > longest || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return fmt.Errorf("fence: %w: name %q: not 1 to %d bytes of UTF-8 without NUL", elector.ErrConfig, name, longest)
	}
	return nil
}
