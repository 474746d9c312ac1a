package servertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/elector-go/elector/internal/process"
)

// MariaDB is one MariaDB server. Its methods may be called from any goroutine; those that start or
// end the process exclude each other.
//
// Whoever connects may do anything, without a password: it has no tables of users. At first it has no
// databases but those of the server itself.
type MariaDB struct{ *server }

// StartMariaDB starts a server of its own and blocks until it serves. The caller closes it.
func StartMariaDB(cfg SQLConfig) (*MariaDB, error) {
	cfg = cfg.withDefaults()
	path, err := program("mariadbd", "mariadb-server-core", "/usr/sbin")
	if err != nil {
		return nil, err
	}
	s, err := newSQL("mariadb", "MariaDB server", path, cfg)
	if err != nil {
		return nil, err
	}
	m := &MariaDB{s}
	s.prepare = m.makeData
	s.probe = m.serves
	args := []string{
		"--no-defaults",
		"--skip-grant-tables", // without them there is nothing to install first
		"--datadir=" + s.dataDir,
		"--tmpdir=" + s.dir,
		"--socket=" + filepath.Join(s.dir, "socket"),
		"--pid-file=" + filepath.Join(s.dir, "pid"),
		"--bind-address=" + s.at.IP,
		fmt.Sprintf("--port=%d", s.ports[0]),
		"--max-connect-errors=1000000", // each look whether it serves counts as one
		"--innodb-buffer-pool-size=32M",
		"--innodb-log-file-size=16M",
	}
	if !cfg.Sync {
		args = append(args, "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0")
	}
	s.proc.Spec.Args = append(args, cfg.Args...)
	if err := m.Start(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// makeData has the server make its files and end. It would do so at its first start as well, but
// killed soon after that it finds them damaged.
func (m *MariaDB) makeData() error {
	if m.hasData() {
		return nil
	}
	spec := m.proc.Spec
	err := errors.Join(os.Mkdir(m.dataDir, 0o700), process.Give(m.dataDir, spec.User))
	if err != nil {
		return err
	}
	spec.Args = append([]string{"--no-defaults", "--bootstrap"}, spec.Args[1:]...)
	return process.Run(spec)
}

// serves looks for the server's hello: a packet with the version of the protocol.
func (m *MariaDB) serves(timeout time.Duration) error {
	hello, err := exchange(m.addr, timeout, nil, 5)
	if err == nil && hello[4] != 10 {
		err = fmt.Errorf("%w: said %q", ErrNotServing, hello)
	}
	return err
}
