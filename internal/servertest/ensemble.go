package servertest

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Ensemble is a group of ZooKeeper servers that replicate each other.
type Ensemble struct {
	// Servers are the members in the order of their ids. The slice never
	// changes; members that are down stay in it.
	Servers []*ZooKeeper

	readyTimeout time.Duration
}

// StartZooKeeperEnsemble starts n servers (three or five, usually) side by
// side and blocks until all serve and one of them leads. The caller closes it.
func StartZooKeeperEnsemble(n int, cfg ZooKeeperConfig) (*Ensemble, error) {
	if n < 1 {
		return nil, fmt.Errorf("servertest: an ensemble of %d servers", n)
	}
	cfg = cfg.withDefaults()
	ports, err := FreePorts(3 * n)
	if err != nil {
		return nil, err
	}
	peers := make([]peer, n)
	for i := range peers {
		peers[i] = peer{id: i + 1, clientPort: ports[3*i], quorumPort: ports[3*i+1], electPort: ports[3*i+2]}
	}
	e := &Ensemble{readyTimeout: cfg.ReadyTimeout}
	for i, self := range peers {
		z, err := newZooKeeper(cfg, self, peers)
		if err != nil {
			ReleasePorts(ports[3*i:]...)
			return nil, errors.Join(err, e.Close())
		}
		e.Servers = append(e.Servers, z)
	}
	if err := e.Start(); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

// Addrs returns all members' client addresses, of those that are down too.
func (e *Ensemble) Addrs() []string {
	addrs := make([]string, len(e.Servers))
	for i, z := range e.Servers {
		addrs[i] = z.Addr()
	}
	return addrs
}

// Start starts all members that are not running and blocks until every member
// serves. Resume paused members first.
func (e *Ensemble) Start() error {
	for _, z := range e.Servers {
		if z.Running() {
			continue
		}
		if err := z.Launch(); err != nil {
			return err
		}
	}
	if err := e.each(func(z *ZooKeeper) error { return z.WaitReady(e.readyTimeout) }); err != nil {
		return err
	}
	_, err := e.WaitLeader(e.readyTimeout)
	return err
}

// Leader returns the member that leads now, or an error wrapping
// ErrNotServing. Members that are down or paused are not asked. After a Resume
// two members can believe that they lead; the one of the later epoch does.
func (e *Ensemble) Leader() (*ZooKeeper, error) {
	zxids := make([]int64, len(e.Servers))
	e.survey(func(i int, z *ZooKeeper) {
		info, err := z.info(wordTimeout)
		if err != nil || info["Mode"] == ModeFollower {
			return
		}
		if zxid, err := parseZxid(info); err == nil {
			zxids[i] = zxid + 1 // a new standalone server's is 0
		}
	})
	var leader *ZooKeeper
	var latest int64
	for i, zxid := range zxids {
		if zxid > latest {
			leader, latest = e.Servers[i], zxid
		}
	}
	if leader == nil {
		return nil, fmt.Errorf("servertest: no leader: %w", ErrNotServing)
	}
	return leader, nil
}

// WaitLeader blocks until there is a leader, and returns it.
func (e *Ensemble) WaitLeader(timeout time.Duration) (*ZooKeeper, error) {
	deadline := time.Now().Add(timeout)
	for {
		leader, err := e.Leader()
		if err == nil {
			return leader, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("after %v: %w", timeout, err)
		}
		time.Sleep(25 * time.Millisecond)
	}
}

// Followers returns the members that follow a leader now.
func (e *Ensemble) Followers() []*ZooKeeper {
	follows := make([]bool, len(e.Servers))
	e.survey(func(i int, z *ZooKeeper) {
		mode, err := z.Mode()
		follows[i] = err == nil && mode == ModeFollower
	})
	var followers []*ZooKeeper
	for i, z := range e.Servers {
		if follows[i] {
			followers = append(followers, z)
		}
	}
	return followers
}

// Close closes all members and blocks until they are gone.
func (e *Ensemble) Close() error {
	return e.each((*ZooKeeper).Close)
}

// survey asks all members that could answer, side by side, and waits.
func (e *Ensemble) survey(ask func(i int, z *ZooKeeper)) {
	var wg sync.WaitGroup
	for i, z := range e.Servers {
		if z.Running() && !z.Paused() {
			wg.Go(func() { ask(i, z) })
		}
	}
	wg.Wait()
}

// each does something with all members side by side, and waits.
func (e *Ensemble) each(do func(*ZooKeeper) error) error {
	errs := make([]error, len(e.Servers))
	var wg sync.WaitGroup
	for i, z := range e.Servers {
		wg.Go(func() { errs[i] = do(z) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
