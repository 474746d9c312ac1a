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

// Options tune a Service. The zero value is valid.
type Options struct {
	// MinTTL, MaxTTL and DefaultTTL are the session timeouts that are granted: a request outside the limits
	// gets the nearest one. Zero means 10 ms, 24 h and 10 s.
	MinTTL, MaxTTL, DefaultTTL time.Duration

	// Margin is the time between the end of the trust window and the moment when the service drops the
	// session. Zero means a tenth of the session's TTL; more than half of the TTL counts as half.
	Margin time.Duration

	// MaxOps and MaxBytes limit one commit: its conditions and ops together, and the bytes in their keys
	// and values. Zero means no limit.
	MaxOps, MaxBytes int

	// Revision is the revision before the first commit, as of a service that has run for long. Real
	// services begin anywhere: ZooKeeper's revisions are above 2^32.
	Revision uint64

	// Latency, if set, returns how long a message takes between a process and the service: a request, its
	// reply, the notice of a change. Messages of a session overtake each other in neither direction. A
	// message whose caller gives up arrives all the same; one whose link is dead when it should arrive is
	// lost. Heartbeats take no time. Latency is called with the service locked and must not call it.
	Latency func() time.Duration

	// Detect is how long a process treats a dead link as alive: its sessions stay Live that long, while
	// their windows run out and calls get no reply. Zero: it notices at once.
	Detect time.Duration

	// Intercept, if set, is called before each operation takes effect and before each wake-up is delivered,
	// on the goroutine of the waiting caller and without locks: while it blocks, that step is held back and
	// everything else continues. A caller's ctx does not end it.
	Intercept func(Step)
}

// A Step is an operation that Options.Intercept may hold back.
type Step struct {
	// Client is the name of the process.
	Client string
	// Session is the session's ID; "" for an open.
	Session string
	// Kind is the operation.
	Kind StepKind
	// Key is the key that it is about, the first if there are several.
	Key string
	// Ops are the ops of a commit. They must not be changed.
	Ops []backend.Op
}

// StepKind is the kind of a Step.
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

// A Service is the coordination service: a linearizable store in this process. It lives as long as it is
// referenced; there is nothing to close. It is safe for concurrent use.
//
// As a [backend.Backend] it is one Client, named "service".
type Service struct {
	opts Options
	self *Client

	// mu guards all state, including that of clients and sessions. It is never held while blocking.
	mu       sync.Mutex
	rev      uint64              // of the last commit
	tree                         // the current entries
	past     *tree               // nil, or what new sessions read: see Lag
	sessions map[string]*session // by ID, as long as the service knows them
	clients  []*Client
	named    uint64 // sessions so far
	queued   uint64 // enqueued entries so far
	stopped  bool
	stats    Stats
}

// New returns an empty service.
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

// Client returns a simulated process with a link of its own. The name is for reports; several clients may
// have the same name.
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

// Name returns the name that the client was given.
func (c *Client) Name() string { return c.name }

func (c *Client) down() bool { return c.cut || c.svc.stopped }

func wrap(op, key string, err error) error {
	if key == "" {
		return fmt.Errorf("memory: %s: %w", op, err)
	}
	return fmt.Errorf("memory: %s %s: %w", op, key, err)
}
