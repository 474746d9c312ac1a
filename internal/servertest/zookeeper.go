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

// ZooKeeper is the process of one ZooKeeper server. Its methods may be called from any goroutine; those
// that start or end the process exclude each other.
type ZooKeeper struct {
	*Server
	id   int
	line string
}

// StartZooKeeper starts a standalone server and blocks until it serves. The caller closes it.
func StartZooKeeper(cfg ZooKeeperConfig) (*ZooKeeper, error) {
	return alone(StartZooKeeperEnsemble(1, cfg))
}

// newZooKeeper prepares a server without starting it: number id of the ensemble of peers, or a standalone
// server if id is 0. On success the server owns the ports. cfg has its defaults filled in.
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
	s, err := newServer("zookeeper", process.Spec{Name: name, Path: java, Dir: cfg.Dir}, at, ports)
	if err != nil {
		return nil, err
	}
	configFile, tmpDir, jaasFile := filepath.Join(s.dir, "zoo.cfg"), filepath.Join(s.dir, "tmp"), filepath.Join(s.dir, "jaas.conf")
	s.proc.Spec.Args = cfg.javaArgs(classPath, tmpDir, configFile, jaasFile)
	z := &ZooKeeper{Server: s, id: id}
	s.prepare = z.makeData
	s.probe = func(timeout time.Duration) error {
		_, err := z.info(timeout)
		return err
	}
	err = errors.Join(
		os.Mkdir(tmpDir, 0o755),
		os.WriteFile(configFile, []byte(cfg.file(s.dataDir, at.IP, ports[0], id, peers)), 0o644),
		os.WriteFile(jaasFile, []byte(cfg.JAAS), 0o600),
	)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("servertest: %w", err), os.RemoveAll(s.dir))
	}
	return z, nil
}

// makeData makes the data folder with the file myid, which holds this server's number.
func (z *ZooKeeper) makeData() error {
	if err := os.MkdirAll(z.dataDir, 0o755); err != nil || z.id == 0 {
		return err
	}
	return os.WriteFile(filepath.Join(z.dataDir, "myid"), []byte(strconv.Itoa(z.id)), 0o644)
}

// ID returns the server's number in its ensemble, from 1, or 0 if it is standalone.
func (z *ZooKeeper) ID() int { return z.id }

// Line returns what reconfig takes to add the server to its ensemble.
func (z *ZooKeeper) Line() string { return z.line }

// Ensemble is a group of ZooKeeper servers that replicate each other.
type Ensemble = Cluster[*ZooKeeper]

// StartZooKeeperEnsemble starts n servers (usually three or five) in parallel and blocks until all serve
// and one of them leads. With n = 1 the server is standalone. The caller closes it.
func StartZooKeeperEnsemble(n int, cfg ZooKeeperConfig) (*Ensemble, error) {
	cfg = cfg.withDefaults()
	return startCluster(cfg.Network, n, 3, func(i int, sites []networktest.Site, ports [][]int) (*ZooKeeper, error) {
		if n == 1 {
			return newZooKeeper(cfg, 0, sites[i], ports[i], nil)
		}
		var peers []peer
		for i, p := range ports {
			peers = append(peers, peer{id: cfg.FirstID + i, ip: sites[i].IP, quorumPort: p[1], electPort: p[2], observes: i >= n-cfg.Observers})
		}
		z, err := newZooKeeper(cfg, cfg.FirstID+i, sites[i], ports[i], peers[:max(n-cfg.Joining, i+1)])
		if err == nil {
			z.line = fmt.Sprintf("%s;%s:%d", peers[i], sites[i].IP, ports[i][0])
		}
		return z, err
	})
}

// leads derives the term from the latest zxid: its upper half is the leader's epoch.
func (z *ZooKeeper) leads() (uint64, error) {
	info, err := z.info(answerTimeout)
	if err != nil || info["Mode"] == ModeFollower || info["Mode"] == ModeObserver {
		return 0, err
	}
	zxid, err := parseZxid(info)
	if err != nil {
		return 0, err
	}
	return uint64(zxid) + 1, nil // the zxid of a new standalone server is 0
}

// SetJAAS replaces the server's JAAS file, which the server reads when it starts.
func (z *ZooKeeper) SetJAAS(text string) error {
	return os.WriteFile(filepath.Join(z.dir, "jaas.conf"), []byte(text), 0o600)
}
