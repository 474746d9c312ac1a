package servertest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/elector-go/elector/internal/process"
)

// Postgres is one PostgreSQL server. Its methods may be called from any goroutine; those that
// start or end the process exclude each other.
//
// Whoever connects is the superuser postgres, without a password.
type Postgres struct{ *server }

// StartPostgres starts a server of its own and blocks until it serves. The caller closes it.
func StartPostgres(cfg SQLConfig) (*Postgres, error) {
	cfg = cfg.withDefaults()
	initdb, err := postgresProgram("initdb")
	if err != nil {
		return nil, err
	}
	path, err := postgresProgram("postgres")
	if err != nil {
		return nil, err
	}
	s, err := newSQL("postgres", "PostgreSQL server", path, cfg)
	if err != nil {
		return nil, err
	}
	p := &Postgres{s}
	s.prepare = func() error { return p.makeData(initdb) }
	s.probe = p.serves
	args := []string{
		"-D", s.dataDir,
		"-p", fmt.Sprint(s.ports[0]),
		"-c", "listen_addresses=" + s.at.IP,
		"-c", "unix_socket_directories=",
		"-c", "shared_buffers=32MB",
	}
	if !cfg.Sync {
		args = append(args, "-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off")
	}
	s.proc.Spec.Args = append(args, cfg.Args...)
	if err := p.Start(); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// postgresProgram finds a program of the newest version. Debian keeps them out of PATH.
func postgresProgram(name string) (string, error) {
	return program(name, "postgresql", "/usr/lib/postgresql/*/bin")
}

func (p *Postgres) makeData(initdb string) error {
	if p.hasData() {
		return nil
	}
	return process.Run(process.Spec{
		Name: "initdb", Path: initdb, User: p.proc.Spec.User, Dir: p.dir, LogPath: filepath.Join(p.dir, "initdb.log"),
		Args: []string{
			"-D", p.dataDir, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C",
			"--no-sync", "--no-instructions",
		},
	})
}

// serves says hello. A server that starts or recovers accepts connections, and refuses that.
func (p *Postgres) serves(timeout time.Duration) error {
	const version = 3 << 16
	hello := binary.BigEndian.AppendUint32(nil, version)
	hello = append(hello, "user\x00postgres\x00database\x00postgres\x00\x00"...)
	hello = append(binary.BigEndian.AppendUint32(nil, uint32(len(hello)+4)), hello...)
	answer, err := exchange(p.addr, timeout, hello, 1)
	if err == nil && answer[0] != 'R' { // R asks for a password, or for none
		err = fmt.Errorf("%w: answered %q", ErrNotServing, answer)
	}
	return err
}

// URL returns the address of its database postgres.
func (p *Postgres) URL() string { return "postgres://postgres@" + p.addr + "/postgres?sslmode=disable" }

// Kill ends the server at once, by SIGQUIT: to its data that is a crash. After SIGKILL its children
// would live on for a moment, in which it cannot be started again, and if it never is, its shared
// memory stays in the system.
func (p *Postgres) Kill() error {
	return p.exclusive(func() error { return p.proc.Quit(stopGrace) })
}

// Restart is Kill followed by Start.
func (p *Postgres) Restart() error {
	if err := p.Kill(); err != nil {
		return err
	}
	return p.Start()
}

// Wipe is Kill, and removes all data.
func (p *Postgres) Wipe() error {
	if err := p.Kill(); err != nil {
		return err
	}
	return p.server.Wipe()
}

// Close is Kill, removes the server's folder and gives its port back. Closing twice is fine.
func (p *Postgres) Close() error {
	if err := p.Kill(); errors.Is(err, ErrClosed) {
		return nil
	} else if err != nil {
		return err
	}
	return p.server.Close()
}
