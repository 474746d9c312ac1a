package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/go-zookeeper/zk"
)

// rawPair is two sessions of the bare client: one deletes an ephemeral node, the
// other's data watch on it fires. Whoever elects with ephemeral nodes cannot be
// faster than that.
type rawPair struct {
	owner, watcher *zk.Conn
	path           string
}

func (l *lab) newRawPair(ctx context.Context, ownerAddr, watcherAddr, path string, timeout time.Duration) (*rawPair, error) {
	owner, err := l.rawConn(ctx, ownerAddr, timeout)
	if err != nil {
		return nil, err
	}
	watcher, err := l.rawConn(ctx, watcherAddr, timeout)
	if err != nil {
		owner.Close()
		return nil, err
	}
	return &rawPair{owner: owner, watcher: watcher, path: path}, nil
}

func (r *rawPair) close() {
	r.owner.Close()
	r.watcher.Close()
}

// rawConn connects, and returns once there is a session.
func (l *lab) rawConn(ctx context.Context, addr string, timeout time.Duration) (*zk.Conn, error) {
	ready := make(chan struct{}, 1)
	conn, _, err := zk.Connect([]string{addr}, timeout, zk.WithLogger(mute{}), zk.WithLogInfo(false), zk.WithDialer(l.pings.dial),
		zk.WithEventCallback(func(ev zk.Event) {
			if ev.State == zk.StateHasSession {
				select {
				case ready <- struct{}{}:
				default:
				}
			}
		}))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-ready:
		return conn, nil
	case <-ctx.Done():
		conn.Close()
		return nil, fmt.Errorf("no session with %s: %w", addr, ctx.Err())
	}
}

type mute struct{}

func (mute) Printf(string, ...any) {}

// watch makes the node and watches it. The channel gets the instant at which its
// deletion has come to the watcher's goroutine.
func (r *rawPair) watch() (<-chan time.Time, error) {
	if _, err := r.owner.Create(r.path, []byte("raw"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		return nil, fmt.Errorf("create %s: %w", r.path, err)
	}
	_, _, events, err := r.watcher.GetW(r.path)
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", r.path, err)
	}
	fired := make(chan time.Time, 1)
	go func() { // ends with the event; closing the connection makes one, too
		ev := <-events
		now := time.Now()
		if ev.Type == zk.EventNodeDeleted {
			fired <- now
		}
		close(fired)
	}()
	return fired, nil
}

// sample takes the delay from just before the deletion to the watch. idle blocks
// for the idle time before.
func (r *rawPair) sample(ctx context.Context, idle func() error) (time.Duration, error) {
	fired, err := r.watch()
	if err != nil {
		return 0, err
	}
	if err := idle(); err != nil {
		return 0, err
	}
	began := time.Now()
	if err := r.owner.Delete(r.path, -1); err != nil {
		return 0, fmt.Errorf("delete %s: %w", r.path, err)
	}
	at, err := await(ctx, fired)
	return at.Sub(began), err
}

// await receives the instant at which a watch of rawPair has fired.
func await(ctx context.Context, fired <-chan time.Time) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case at, ok := <-fired:
		if !ok {
			return at, errors.New("the raw watch fired for another reason than the deletion")
		}
		return at, nil
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("the raw watch has not fired: %w", ctx.Err())
	}
}

// warm has the server compile its code before anything is measured.
func (r *rawPair) warm(ctx context.Context, times int) error {
	for range times {
		if _, err := r.sample(ctx, func() error { return ctx.Err() }); err != nil {
			return err
		}
	}
	return nil
}

const warmups = 2000

type rawResult struct {
	Idle dist `json:"idle"`
	Busy dist `json:"back_to_back"`

	cfg config
}

func rawPart(ctx context.Context, l *lab) (section, error) {
	l.say("raw: the limit with no other connections")
	r, err := l.newRawPair(ctx, l.zk.Addr(), l.zk.Addr(), "/bench-raw", l.cfg.ttl)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.warm(ctx, l.warmups()); err != nil {
		return nil, err
	}
	var idle, busy []time.Duration
	for range l.cfg.samples {
		for _, kind := range []struct {
			wait time.Duration
			to   *[]time.Duration
		}{{0, &busy}, {l.cfg.idle, &idle}} {
			d, err := r.sample(ctx, func() error { return pause(ctx, kind.wait) })
			if err != nil {
				return nil, err
			}
			*kind.to = append(*kind.to, d)
		}
	}
	return rawResult{summarize(idle), summarize(busy), l.cfg}, nil
}

func (l *lab) warmups() int {
	if l.cfg.quick {
		return 50
	}
	return warmups
}

func (r rawResult) markdown(w io.Writer) {
	fmt.Fprintf(w, "## Raw limit\n\n")
	fmt.Fprintf(w, "One session of go-zookeeper deletes an ephemeral node, another's data watch on it fires: the delay from just before the Delete to the event in the watcher's goroutine. No other connections. The server %s. Warmed up with %d deletions.\n\n",
		syncText(r.cfg), (&lab{cfg: r.cfg}).warmups())
	row := func(name string, d dist) []string {
		return []string{name, fmt.Sprint(d.N), ms(d.P50), ms(d.P90), ms(d.P99)}
	}
	fmt.Fprintln(w, table(
		[]string{"before each sample", "samples", "p50", "p90", "p99"},
		row("create and watch only", r.Busy),
		row(fmt.Sprintf("and %v idle", r.cfg.idle), r.Idle)))
}

func syncText(cfg config) string {
	if cfg.fsync {
		return "syncs its log to disk before it answers"
	}
	return "does not sync its log (forceSync=no): a sync would add its time to both sides of every ratio and hide the difference"
}
