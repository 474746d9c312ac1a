package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/zktest"
)

// A fleet is broker processes on a real server, and an operator who looks at what
// stands there with a connection of another tool.
type fleet struct {
	*testing.T
	url      string
	layout   layout
	server   string
	operator *zk.Conn
}

// unique makes a path that no other run of the test has.
func unique(path string) string { return path + strconv.FormatInt(time.Now().UnixNano(), 36) }

func newFleet(t *testing.T, server, path string, timeout time.Duration) *fleet {
	root := layout("/")
	if path != "" {
		root = layout(path)
	}
	return &fleet{
		T: t, server: server, layout: root, operator: zktest.Operator(t, server),
		url: fmt.Sprintf("zk://%s%s?timeout=%v", server, path, timeout),
	}
}

// eventually waits until something is so.
func (f *fleet) eventually(what string, is func() bool) {
	f.Helper()
	deadline := time.Now().Add(time.Minute)
	for !is() {
		if time.Now().After(deadline) {
			f.Fatalf("has not happened: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// read returns what stands under a key; a nil Stat says nothing. It asks again while
// the link is down.
func (f *fleet) read(key string) (data []byte, stat *zk.Stat) {
	f.Helper()
	f.eventually("read "+key, func() bool {
		var err error
		data, stat, err = f.operator.Get(key)
		if errors.Is(err, zk.ErrNoNode) {
			data, stat, err = nil, nil, nil
		}
		return err == nil
	})
	return data, stat
}

// state returns the state of a partition as it is stored, and when it was written; a
// partition that has none has no replicas.
func (f *fleet) state(topic string, n int) (p partition, zxid int64) {
	f.Helper()
	data, stat := f.read(f.layout.partition(topic, n))
	if stat == nil {
		return partition{}, 0
	}
	require.NoError(f, json.Unmarshal(data, &p))
	return p, stat.Mzxid
}

// becomes waits until a partition has this leader and ISR, and returns its state.
func (f *fleet) becomes(topic string, n, leader int, isr ...int) partition {
	f.Helper()
	var p partition
	want := partition{Leader: leader, ISR: isr}
	f.eventually(fmt.Sprintf("%s-%d has leader %d, ISR %v", topic, n, leader, isr), func() bool {
		p, _ = f.state(topic, n)
		return len(p.Replicas) > 0 && p.same(want)
	})
	return p
}

// controller returns who the controller is, and the epoch; false if nobody is.
func (f *fleet) controller() (id int, epoch uint64, ok bool) {
	f.Helper()
	data, stat := f.read(f.layout.key("controller"))
	text, now := f.read(f.layout.key("controller_epoch"))
	if stat == nil || now == nil || now.Mzxid != stat.Czxid {
		return 0, 0, false // or it has just changed
	}
	var c struct{ BrokerID int }
	require.NoError(f, json.Unmarshal(data, &c))
	epoch, err := strconv.ParseUint(string(text), 10, 64)
	require.NoError(f, err)
	return c.BrokerID, epoch, true
}

// nextController waits for a controller of a later epoch that has begun to write.
func (f *fleet) nextController(after uint64) (id int, epoch uint64) {
	f.Helper()
	f.eventually(fmt.Sprintf("a controller with an epoch above %d writes", after), func() bool {
		var ok bool
		id, epoch, ok = f.controller()
		data, _ := f.read(f.layout.heartbeat())
		beat, isBeat := decode[heartbeat](data)
		return ok && epoch > after && isBeat && beat.ControllerEpoch == epoch
	})
	return id, epoch
}

// registrations returns the names of the brokers' entries.
func (f *fleet) registrations() []string {
	f.Helper()
	names, _, err := f.operator.Children(f.layout.brokers())
	require.NoError(f, err)
	return names
}

// noLateWrites holds that nothing that stands in the service was written by a
// controller of an epoch below that of the present one, after the present one's claim.
func (f *fleet) noLateWrites(topic string, partitions int) {
	f.Helper()
	_, claim := f.read(f.layout.key("controller_epoch"))
	_, epoch, ok := f.controller()
	require.True(f, ok, "there is a controller")
	check := func(key string, written uint64, zxid int64) {
		f.Helper()
		if written < epoch {
			assert.Less(f, zxid, claim.Mzxid, "%s was written with controller epoch %d after epoch %d had begun", key, written, epoch)
		} else {
			assert.Greater(f, zxid, claim.Mzxid, "%s was written with controller epoch %d before that had begun", key, written)
		}
	}
	data, stat := f.read(f.layout.heartbeat())
	beat, _ := decode[heartbeat](data)
	check(f.layout.heartbeat(), beat.ControllerEpoch, stat.Mzxid)
	for n := range partitions {
		p, zxid := f.state(topic, n)
		check(f.layout.partition(topic, n), p.ControllerEpoch, zxid)
	}
}

// recordHeartbeats writes down whose heartbeats stand in the service, and checks in the
// end that no epoch comes after a later one.
func (f *fleet) recordHeartbeats() {
	conn := zktest.Operator(f, f.server)
	stop, done := make(chan struct{}), make(chan struct{})
	var epochs []uint64
	go func() {
		defer close(done)
		for {
			data, _, changed, err := conn.GetW(f.layout.heartbeat())
			if beat, ok := decode[heartbeat](data); err == nil && ok {
				epochs = append(epochs, beat.ControllerEpoch)
			}
			if err != nil {
				changed = nil
			}
			select {
			case <-changed:
			case <-time.After(100 * time.Millisecond):
			case <-stop:
				return
			}
		}
	}()
	f.Cleanup(func() {
		close(stop)
		<-done
		assert.NotEmpty(f, epochs)
		assert.IsNonDecreasing(f, epochs, "a heartbeat of an earlier controller came after one of a later")
	})
}

// create asks for a topic, as a reader would.
func (f *fleet) create(flags ...string) {
	f.Helper()
	out, err := exec.Command(binary, append([]string{"-backend", f.url, "-create"}, flags...)...).CombinedOutput()
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
	p.cmd = exec.Command(binary, append([]string{"-backend", f.url, "-broker", strconv.Itoa(id)}, flags...)...)
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
	p.f.eventually(fmt.Sprintf("broker %d says %q", p.id, text), func() bool {
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
	f.eventually("three brokers are registered", func() bool { return len(f.registrations()) == 3 })
	return one, two, three
}
