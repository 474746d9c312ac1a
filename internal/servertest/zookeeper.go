package servertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/elector-go/elector/internal/networktest"
	"github.com/elector-go/elector/internal/process"
)

// ZooKeeper is one ZooKeeper server process. Its methods may be called from
// any goroutine; those that start or end the process exclude each other.
type ZooKeeper struct {
	*server
	id int
}

// StartZooKeeper starts a standalone server and blocks until it serves. The
// caller closes it.
func StartZooKeeper(cfg ZooKeeperConfig) (*ZooKeeper, error) {
	e, err := StartZooKeeperEnsemble(1, cfg)
	if err != nil {
		return nil, err
	}
	return e.Members[0], nil
}

// newZooKeeper prepares a server without starting it: number id of the
// ensemble of peers, or a standalone one if id is 0. On success the server owns
// the ports. cfg has its defaults filled in.
func newZooKeeper(cfg ZooKeeperConfig, id int, at networktest.Site, ports []int, peers []peer) (*ZooKeeper, error) {
	java, err := javaPath()
	if err != nil {
		return nil, err
	}
	classPath, err := zooKeeperClassPath(zooKeeperJarDir())
	if err != nil {
		return nil, err
	}
	name := "ZooKeeper server"
	if id != 0 {
		name += " " + strconv.Itoa(id)
	}
	s, err := newServer("zookeeper", process.Spec{Name: name, Path: java, Dir: cfg.Dir, Log: cfg.Log}, at, ports)
	if err != nil {
		return nil, err
	}
	configFile, tmpDir := filepath.Join(s.dir, "zoo.cfg"), filepath.Join(s.dir, "tmp")
	s.proc.Spec.Args = cfg.javaArgs(classPath, tmpDir, configFile)
	z := &ZooKeeper{server: s, id: id}
	s.prepare = z.makeData
	s.probe = func(timeout time.Duration) error {
		_, err := z.info(timeout)
		return err
	}
	err = errors.Join(
		os.Mkdir(tmpDir, 0o755),
		os.WriteFile(configFile, []byte(cfg.file(s.dataDir, at.IP, ports[0], peers)), 0o644),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("servertest: %w", err), os.RemoveAll(s.dir))
	}
	return z, nil
}

// makeData makes the data folder with myid, which says who this server is.
func (z *ZooKeeper) makeData() error {
	if err := os.MkdirAll(z.dataDir, 0o755); err != nil || z.id == 0 {
		return err
	}
	return os.WriteFile(filepath.Join(z.dataDir, "myid"), []byte(strconv.Itoa(z.id)), 0o644)
}

// ID returns the server's number in its ensemble, from 1, or 0 if standalone.
func (z *ZooKeeper) ID() int { return z.id }
