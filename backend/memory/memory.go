package memory

import (
	"fmt"
	"sync"
	"time"

	"github.com/elector-go/elector/backend"
)

var (
	_ backend.Backend  = (*Service)(nil)
	_ backend.Executor = (*Service)(nil)
	_ backend.Backend  = (*Client)(nil)
	_ backend.Executor = (*Client)(nil)
	_ backend.Driver   = (*session)(nil)
	_ backend.Testator = (*session)(nil)
)

// Options tune a Service. The zero value is good.
type Options struct {
	// MinTTL, MaxTTL and DefaultTTL are the session timeouts granted: a wish outside
	// is granted the nearest. Zero means 10 ms, 24 h and 10 s.
	MinTTL, MaxTTL, DefaultTTL time.Duration

	// Margin is by how much the trust window ends before the service drops the
	// session. Zero means a tenth of the session's TTL; more than half of the TTL is
	// taken as half.
	Margin time.Duration

	// MaxOps and MaxBytes are the limits of one commit: of its conditions and ops
	// together, and of the bytes in their keys and values. Zero means none.
	MaxOps, MaxBytes int

	// Revision is that of the last commit before the first, as of a service that has been at work for long. Real ones
	// begin anywhere: ZooKeeper's are above 2^32.
	Revision uint64

	// Latency, if set, draws for how long a message is under way between a process and the
	// service: a request, its answer, the notice of a change. Messages of a session overtake
	// each other in neither direction. One that is under way when its caller gives up arrives
	// all the same, and one whose link is dead when it should arrive is lost. Heartbeats take no
	// time. It is called with the service locked and must not call it.
	Latency func() time.Duration

	// Detect is for how long a process takes a link for alive that has gone dead: its
	// sessions stay Live so long, while their windows run out and calls get no answer. Zero:
	// it notices at once.
	Detect time.Duration

	// Intercept, if set, is called before each operation takes effect and before
	// each wake-up is delivered, on the goroutine of the caller that waits for it
	// and without locks: while it blocks, that step is held back and all else goes
	// on. A caller's ctx does not end it.
	Intercept func(Step)
}

// A Step is what Options.Intercept holds in its hands.
type Step struct {
	// Client is the name of the process.
	Client string
	// Session is the session's ID; "" for an open.
	Session string
	// Kind is the operation.
	Kind StepKind
	// Key is what it is about: the first one, where there are several.
	Key string
	// Ops are those of a commit. They must not be changed.
	Ops []backend.Op
}

// StepKind tells operations apart.
type StepKind string

const (
	StepOpen        StepKind = "open"
	StepGet         StepKind = "get"
	StepList        StepKind = "list"
	StepPredecessor StepKind = "predecessor"
	StepAwait       StepKind = "await"      // the first read of Await
	StepAwaitList   StepKind = "await list" // the first read of AwaitList
	StepWake        StepKind = "wake"       // a change is about to be noticed
	StepCommit      StepKind = "commit"     // sent, or sent again after a lost request
	StepResolve     StepKind = "resolve"    // looks up what became of a commit
	StepDiscard     StepKind = "discard"
	StepClose       StepKind = "close"
	StepExecute     StepKind = "execute" // of a will; Session is the will's
)

// A Service is the coordination service: a linearizable store in this process. It
// lives as long as it is referred to; there is nothing to close. It is safe for
// concurrent use.
//
// As a [backend.Backend] it is one Client, named "service".
type Service struct {
	opts Options
	self *Client

	// mu guards all state, that of clients and sessions included. It is never held
	// while blocking.
	mu       sync.Mutex
	rev      uint64              // of the last commit
	tree                         // what stands there now
	past     *tree               // nil, or: what the server shows at which sessions are opened
	sessions map[string]*session // by ID, as long as the service knows them
	clients  []*Client
	named    uint64 // sessions so far
	queued   uint64 // enqueued entries so far
	stopped  bool
	stats    Stats
}

// New starts an empty service.
func New(o Options) *Service {
	set := func(d *time.Duration, def time.Duration) {
		if *d <= 0 {
			*d = def
		}
	}
	set(&o.MinTTL, 10*time.Millisecond)
	set(&o.MaxTTL, 24*time.Hour)
	set(&o.DefaultTTL, 10*time.Second)
	s := &Service{
		opts:     o,
		rev:      o.Revision,
		tree:     tree{nodes: make(map[string]*node), root: &node{entry: backend.Entry{Key: "/"}}},
		sessions: make(map[string]*session),
	}
	s.self = s.Client("service")
	return s
}

// Client starts a simulated process with a link of its own. The name is for
// reports; several may bear the same.
func (s *Service) Client(name string) *Client {
	c := &Client{svc: s, name: name, open: make(map[*session]struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients = append(s.clients, c)
	return c
}

// Limits implements backend.Backend.
func (s *Service) Limits() backend.Limits {
	return backend.Limits{MinTTL: s.opts.MinTTL, MaxTTL: s.opts.MaxTTL, DefaultTTL: s.opts.DefaultTTL}
}

// String implements backend.Backend.
func (s *Service) String() string { return "memory" }

// A Client is one simulated process, with its link to the service. It is safe for
// concurrent use.
type Client struct {
	svc  *Service
	name string

	// Guarded by svc.mu.
	open   map[*session]struct{} // not lost yet
	cut    bool
	killed bool
	faults []*fault
	delay  time.Duration
	held   []chan struct{} // gates of HoldWakeups, closed by release
	// throttled says that its requests are turned away, and turned counts them.
	throttled bool
	denied    bool // its credentials allow nothing
	turned    int
}

// Limits implements backend.Backend.
func (c *Client) Limits() backend.Limits { return c.svc.Limits() }

// String implements backend.Backend.
func (c *Client) String() string { return "memory" }

// Name is the name that the client was given.
func (c *Client) Name() string { return c.name }

func (c *Client) down() bool { return c.cut || c.svc.stopped }

func wrap(op, key string, err error) error {
	if key == "" {
		return fmt.Errorf("memory: %s: %w", op, err)
	}
	return fmt.Errorf("memory: %s %s: %w", op, key, err)
}
