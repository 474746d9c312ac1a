package servertest

import (
	"github.com/elector-go/elector/internal/networktest"
)

// Ensemble is a group of ZooKeeper servers that replicate each other.
type Ensemble struct {
	*cluster[*ZooKeeper]
}

// StartZooKeeperEnsemble starts n servers (three or five, usually) side by
// side and blocks until all serve and one of them leads. One alone is a
// standalone server. The caller closes it.
func StartZooKeeperEnsemble(n int, cfg ZooKeeperConfig) (*Ensemble, error) {
	cfg = cfg.withDefaults()
	c, err := startCluster(cfg.Network, n, 3, func(i int, sites []networktest.Site, ports [][]int) (*ZooKeeper, error) {
		if n == 1 {
			return newZooKeeper(cfg, 0, sites[i], ports[i], nil)
		}
		var peers []peer
		for i, p := range ports {
			peers = append(peers, peer{id: i + 1, ip: sites[i].IP, quorumPort: p[1], electPort: p[2]})
		}
		return newZooKeeper(cfg, i+1, sites[i], ports[i], peers)
	})
	if err != nil {
		return nil, err
	}
	return &Ensemble{c}, nil
}

// leads returns what the latest zxid says: its upper half is the leader's epoch.
func (z *ZooKeeper) leads() (uint64, error) {
	info, err := z.info(answerTimeout)
	if err != nil || info["Mode"] == ModeFollower {
		return 0, err
	}
	zxid, err := parseZxid(info)
	if err != nil {
		return 0, err
	}
	return uint64(zxid) + 1, nil // a new standalone server's is 0
}

// Followers returns the members that follow a leader now.
func (e *Ensemble) Followers() []*ZooKeeper {
	follows := make([]bool, len(e.Members))
	e.survey(func(i int, z *ZooKeeper) {
		mode, err := z.Mode()
		follows[i] = err == nil && mode == ModeFollower
	})
	var followers []*ZooKeeper
	for i, z := range e.Members {
		if follows[i] {
			followers = append(followers, z)
		}
	}
	return followers
}
