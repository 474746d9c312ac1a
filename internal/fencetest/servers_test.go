package fencetest

import (
	"context"
	"database/sql"
	"errors"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/process"
	"github.com/elector-go/elector/internal/servertest"
)

// startPostgres starts a PostgreSQL server. Each client is the superuser postgres, without a password. With
// sync the server writes each transaction to the disk before it replies. Without sync it keeps its files in
// memory if there is room: a killed process still loses nothing.
func startPostgres(sync bool, args ...string) (*servertest.Server, error) {
	const folder = "/usr/lib/postgresql/*/bin" // Debian keeps the programs out of PATH
	initdb, err := servertest.FindProgram("initdb", "postgresql", folder)
	if err != nil {
		return nil, err
	}
	path, err := servertest.FindProgram("postgres", "postgresql", folder)
	if err != nil {
		return nil, err
	}
	if !sync {
		args = append(args, "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
	}
	return servertest.StartProgram(servertest.Program{
		Name: "PostgreSQL", Path: path, User: plainUser(), Dir: folderFor(sync),
		Args: func(s *servertest.Server) []string {
			host, port, _ := net.SplitHostPort(s.Addr())
			return append([]string{
				"-D", s.DataDir(), "-p", port,
				"-c", "listen_addresses=" + host,
				"-c", "unix_socket_directories=",
				"-c", "shared_buffers=32MB",
			}, args...)
		},
		Prepare: func(s *servertest.Server) error {
			if there(s.DataDir()) {
				return nil
			}
			return process.Run(process.Spec{
				Name: "initdb", Path: initdb, User: plainUser(), Dir: s.Dir(), LogPath: filepath.Join(s.Dir(), "initdb.log"),
				Args: []string{
					"-D", s.DataDir(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C",
					"--no-sync", "--no-instructions",
				},
			})
		},
		Probe: func(s *servertest.Server, timeout time.Duration) error { return ping("pgx", postgresURL(s), timeout) },
		// SIGQUIT ends the server at once: for its data that is a crash. After SIGKILL its children would
		// live on for a moment, in which the server cannot start again, and if it never starts again, its
		// shared memory stays in the system.
		Quit: true,
	})
}

func postgresURL(s *servertest.Server) string {
	return "postgres://postgres@" + s.Addr() + "/postgres?sslmode=disable"
}

// startMariaDB starts a MariaDB server. Each client may do anything, without a password: there are no
// tables of users. At first the server has only its own databases. startPostgres documents sync.
func startMariaDB(sync bool, args ...string) (*servertest.Server, error) {
	path, err := servertest.FindProgram("mariadbd", "mariadb-server-core", "/usr/sbin")
	if err != nil {
		return nil, err
	}
	if !sync {
		args = append(args, "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0")
	}
	all := func(s *servertest.Server) []string {
		host, port, _ := net.SplitHostPort(s.Addr())
		return append([]string{
			"--skip-grant-tables", // without grant tables there is nothing to install first
			"--datadir=" + s.DataDir(),
			"--tmpdir=" + s.Dir(),
			"--socket=" + filepath.Join(s.Dir(), "socket"),
			"--pid-file=" + filepath.Join(s.Dir(), "pid"),
			"--bind-address=" + host,
			"--port=" + port,
			"--max-connect-errors=1000000", // a probe that takes too long counts as one
			"--innodb-buffer-pool-size=32M",
			"--innodb-log-file-size=16M",
		}, args...)
	}
	return servertest.StartProgram(servertest.Program{
		Name: "MariaDB", Path: path, User: plainUser(), Dir: folderFor(sync),
		Args: func(s *servertest.Server) []string { return append([]string{"--no-defaults"}, all(s)...) },
		// This start only makes the files. The first normal start would make them, too, but a server that
		// is killed soon after that finds them damaged.
		Prepare: func(s *servertest.Server) error {
			if there(s.DataDir()) {
				return nil
			}
			if err := errors.Join(os.Mkdir(s.DataDir(), 0o700), process.Give(s.DataDir(), plainUser())); err != nil {
				return err
			}
			return process.Run(process.Spec{
				Name: "mariadbd --bootstrap", Path: path, User: plainUser(), Dir: s.Dir(), LogPath: filepath.Join(s.Dir(), "bootstrap.log"),
				Args: append([]string{"--no-defaults", "--bootstrap"}, all(s)...),
			})
		},
		Probe: func(s *servertest.Server, timeout time.Duration) error { return ping("mysql", mariadbDSN(s), timeout) },
	})
}

func mariadbDSN(s *servertest.Server) string { return "root@tcp(" + s.Addr() + ")/" }

// ping connects to a server like its clients.
func ping(driver, name string, timeout time.Duration) error {
	db, err := sql.Open(driver, name)
	if err != nil {
		return err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := db.PingContext(ctx); err != nil {
		return errors.Join(ctx.Err(), err)
	}
	return nil
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func folderFor(sync bool) string {
	if sync {
		return ""
	}
	return servertest.MemoryDir()
}

// plainUser returns a user for a server that refuses to run as root, or "" if this process does not run as
// root. Any existing user will do.
func plainUser() string {
	if os.Geteuid() != 0 {
		return ""
	}
	if _, err := user.Lookup("postgres"); err == nil {
		return "postgres"
	}
	return "nobody"
}

// The error of a server that does not start contains the end of its log.
func TestServerDoesNotStart(t *testing.T) {
	for name, start := range map[string]func() (*servertest.Server, error){
		"no_such_setting": func() (*servertest.Server, error) { return startPostgres(false, "-c", "no_such_setting=1") },
		"no-such-flag":    func() (*servertest.Server, error) { return startMariaDB(false, "--no-such-flag") },
	} {
		t.Run(name, func(t *testing.T) {
			servertest.Long(t, "PostgreSQL and MariaDB")
			_, err := start()
			require.ErrorIs(t, err, process.ErrNotRunning)
			require.ErrorContains(t, err, name)
		})
	}
}
