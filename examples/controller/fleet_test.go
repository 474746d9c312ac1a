package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/wait"
)

// A fleet is broker processes on a real server, and an operator who looks at what
// stands there.
type fleet struct {
	*testing.T
	operator
	site   *site
	url    string
	layout layout
}

// A site is a server that runs, and how to reach it.
type site struct {
	url  string // of sessions that time out soon
	long string // of sessions that outlive a short stop of their process

	server interface {
		Addr() string
		Start() error
		Kill() error
	}
	operator func(t *testing.T, addr string) operator
}

func (s *site) fleet(t *testing.T, root string) *fleet {
	return &fleet{T: t, operator: s.operator(t, s.server.Addr()), site: s, url: s.url, layout: layout(root)}
}

// read returns what stands under a key. It asks again while the link is down.
func (f *fleet) read(key string) (s stored) {
	f.Helper()
	wait.For(f, "read "+key, func() bool {
		var err error
		s, err = f.get(key)
		return err == nil
	})
	return s
}

// state returns the state of a partition as it is stored, and when it was written; a
// partition that has none has no replicas.
func (f *fleet) state(topic string, n int) (p partition, written uint64) {
	f.Helper()
	s := f.read(f.layout.partition(topic, n))
	if !s.is() {
		return partition{}, 0
	}
	require.NoError(f, json.Unmarshal(s.value, &p))
	return p, s.written
}

// becomes waits until a partition has this leader and ISR, and returns its state.
func (f *fleet) becomes(topic string, n, leader int, isr ...int) partition {
	f.Helper()
	var p partition
	want := partition{Leader: leader, ISR: isr}
	wait.For(f, fmt.Sprintf("%s-%d has leader %d, ISR %v", topic, n, leader, isr), func() bool {
		p, _ = f.state(topic, n)
		return len(p.Replicas) > 0 && p.same(want)
	})
	return p
}

// controller returns who the controller is, and the epoch; false if nobody is.
func (f *fleet) controller() (id int, epoch uint64, ok bool) {
	f.Helper()
	seat := f.read(f.layout.key("controller"))
	claim := f.read(f.layout.key("controller_epoch"))
	if !seat.is() || !claim.is() || claim.written != seat.made {
		return 0, 0, false // or it has just changed
	}
	var c struct{ BrokerID int }
	require.NoError(f, json.Unmarshal(seat.value, &c))
	epoch, err := strconv.ParseUint(string(claim.value), 10, 64)
	require.NoError(f, err)
	return c.BrokerID, epoch, true
}

// nextController waits for a controller of a later epoch that has begun to write.
func (f *fleet) nextController(after uint64) (id int, epoch uint64) {
	f.Helper()
	wait.For(f, fmt.Sprintf("a controller with an epoch above %d writes", after), func() bool {
		var ok bool
		id, epoch, ok = f.controller()
		beat, isBeat := decode[heartbeat](f.read(f.layout.heartbeat()).value)
		return ok && epoch > after && isBeat && beat.ControllerEpoch == epoch
	})
	return id, epoch
}

// registrations returns the names of the brokers' entries.
func (f *fleet) registrations() []string {
	f.Helper()
	names, err := f.children(f.layout.brokers())
	require.NoError(f, err)
	return names
}

// noLateWrites holds that nothing that stands in the service was written by a
// controller of an epoch below that of the present one, after the present one's claim.
func (f *fleet) noLateWrites(topic string, partitions int) {
	f.Helper()
	claim := f.read(f.layout.key("controller_epoch"))
	_, epoch, ok := f.controller()
	require.True(f, ok, "there is a controller")
	check := func(key string, by, written uint64) {
		f.Helper()
		if by < epoch {
			assert.Less(f, written, claim.written, "%s was written with controller epoch %d after epoch %d had begun", key, by, epoch)
		} else {
			assert.Greater(f, written, claim.written, "%s was written with controller epoch %d before that had begun", key, by)
		}
	}
	s := f.read(f.layout.heartbeat())
	beat, _ := decode[heartbeat](s.value)
	check(f.layout.heartbeat(), beat.ControllerEpoch, s.written)
	for n := range partitions {
		p, written := f.state(topic, n)
		check(f.layout.partition(topic, n), p.ControllerEpoch, written)
	}
}

// recordHeartbeats writes down whose heartbeats stand in the service, and checks in the
// end that no epoch comes after a later one.
func (f *fleet) recordHeartbeats() {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	var epochs []uint64
	go func() {
		defer close(done)
		f.follow(ctx, f.layout.heartbeat(), func(value []byte) {
			if beat, ok := decode[heartbeat](value); ok {
				epochs = append(epochs, beat.ControllerEpoch)
			}
		})
	}()
	f.Cleanup(func() {
		stop()
		<-done
		assert.NotEmpty(f, epochs)
		assert.IsNonDecreasing(f, epochs, "a heartbeat of an earlier controller came after one of a later")
	})
}

// create asks for a topic, as a reader would.
func (f *fleet) create(flags ...string) {
	f.Helper()
	out, err := exec.Command(binary, append([]string{"-backend", f.url, "-root", string(f.layout), "-create"}, flags...)...).CombinedOutput()
	require.NoError(f, err, "%s", out)
	f.Logf("%s", out)
}

// A process is one broker.
type process struct {
	f   *fleet
	id  int
	cmd *exec.Cmd

	mu    sync.Mutex
	lines []string
	heard int           // lines that says has passed
	ended chan struct{} // closed when its output has
}

func (f *fleet) start(id int, flags ...string) *process {
	f.Helper()
	p := &process{f: f, id: id, ended: make(chan struct{})}
	p.cmd = exec.Command(binary, append([]string{"-backend", f.url, "-root", string(f.layout), "-broker", strconv.Itoa(id)}, flags...)...)
	p.cmd.Stderr = os.Stderr
	p.cmd.Env = append(os.Environ(), "GORACE=halt_on_error=1")
	pipe, err := p.cmd.StdoutPipe()
	require.NoError(f, err)
	require.NoError(f, p.cmd.Start())
	go func() {
		defer close(p.ended)
		for scan := bufio.NewScanner(pipe); scan.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, scan.Text())
			p.mu.Unlock()
		}
	}()
	f.Cleanup(func() {
		_ = p.cmd.Process.Kill() // unless it has ended
		<-p.ended
		_ = p.cmd.Wait() // says that it was killed
		if f.Failed() {
			f.Logf("process of broker %d, pid %d:\n%s", id, p.cmd.Process.Pid, strings.Join(p.lines, "\n"))
		}
	})
	return p
}

// says waits for a line that contains text, after the one it has waited for last, and
// returns it.
func (p *process) says(text string) (line string) {
	p.f.Helper()
	wait.For(p.f, fmt.Sprintf("broker %d says %q", p.id, text), func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i, l := range p.lines[p.heard:] {
			if strings.Contains(l, text) {
				line, p.heard = l, p.heard+i+1
				return true
			}
		}
		return false
	})
	return line
}

func (p *process) signal(s os.Signal) {
	p.f.Helper()
	require.NoError(p.f, p.cmd.Process.Signal(s))
}

func (p *process) kill() { p.f.Helper(); p.signal(syscall.SIGKILL) }

// three starts brokers 1 to 3, of which broker 1 is the controller.
func (f *fleet) three(flags ...string) (one, two, three *process) {
	f.Helper()
	one = f.start(1, flags...)
	one.says("IS THE CONTROLLER, epoch 1")
	two, three = f.start(2, flags...), f.start(3, flags...)
	two.says("stands for controller, and waits")
	three.says("stands for controller, and waits")
	wait.For(f, "three brokers are registered", func() bool { return len(f.registrations()) == 3 })
	return one, two, three
}
