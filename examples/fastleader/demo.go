package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// patience is how long the demonstration waits for what must come.
const patience = 30 * time.Second

// demo is five processes of this program, some deaths, and what they say.
func demo(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	program, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fastleader")
	if err != nil {
		return err
	}
	f := &fleet{ctx: ctx, program: program, dir: dir, zxids: []uint64{5, 6, 7, 5, 5}, lines: make(chan string), running: make(map[int]*process)}
	defer func() {
		cancel() // what is said from now on is not printed
		err = errors.Join(err, f.end(), os.RemoveAll(dir))
	}()
	if f.peers, err = addressesFor(len(f.zxids)); err != nil {
		return err
	}
	for _, scene := range []struct {
		title  string
		starts []int
		kills  bool // the leader
		until  []string
	}{
		{"1 and 2 start: two of five are no majority", []int{1, 2}, false, []string{"1  round 1: votes for 2"}},
		{"3 starts: with it there is a majority, and it has the highest zxid", []int{3}, false, []string{"3  " + leads}},
		{"4 and 5 start: they hear from those who have settled, and unseat nobody", []int{4, 5}, false, []string{"4  FOLLOWS 3", "5  FOLLOWS 3"}},
		// On a busy machine 2 may be heard too late, and another one leads.
		{"3, the leader: KILL -9; of those left 2 has the highest zxid, though not the highest id", nil, true,
			[]string{leads, "FOLLOWS", "FOLLOWS", "FOLLOWS"}},
		{"3 starts again: it has the highest zxid, and is late", []int{3}, false, []string{"3  FOLLOWS"}},
		{"the leader: KILL -9; now 3 is in time, as a rule", nil, true, []string{leads}},
	} {
		fmt.Printf("=== %s\n", scene.title)
		if scene.kills {
			if err := f.kill(f.leader); err != nil {
				return err
			}
		}
		for _, id := range scene.starts {
			if err := f.start(id); err != nil {
				return err
			}
		}
		if err := f.await(scene.until); err != nil {
			return err
		}
	}
	fmt.Println("=== the end")
	return nil
}

// fleet is the processes of a demonstration.
type fleet struct {
	ctx          context.Context
	program, dir string
	zxids        []uint64
	peers        string
	lines        chan string
	running      map[int]*process
	leader       int // the last one that a majority follows
}

const leads = "is followed by a majority"

type process struct {
	cmd   *exec.Cmd
	leash io.Closer
	ended chan struct{} // all that it has said is in lines
}

func (f *fleet) start(id int) error {
	cmd := exec.Command(f.program, "-leash", "-id", strconv.Itoa(id), "-zxid", strconv.FormatUint(f.zxids[id-1], 10),
		"-peers", f.peers, "-state", filepath.Join(f.dir, strconv.Itoa(id)))
	cmd.Stderr = os.Stderr
	leash, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p := &process{cmd, leash, make(chan struct{})}
	f.running[id] = p
	go func() {
		defer close(p.ended)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			select {
			case f.lines <- scan.Text():
			case <-f.ctx.Done(): // nobody listens any more
			}
		}
	}()
	return nil
}

// await prints what is said until each of the texts has been said.
func (f *fleet) await(texts []string) error {
	late := time.After(patience)
	for len(texts) > 0 {
		select {
		case line := <-f.lines:
			fmt.Println(line)
			if before, _, is := strings.Cut(line, "  "+leads); is {
				words := strings.Fields(before)
				f.leader, _ = strconv.Atoi(words[len(words)-1])
			}
			for i, text := range texts {
				if strings.Contains(line, "  "+text) {
					texts = append(texts[:i:i], texts[i+1:]...)
					break
				}
			}
		case <-late:
			return fmt.Errorf("for %v nobody has said %q", patience, texts)
		case <-f.ctx.Done():
			return f.ctx.Err()
		}
	}
	return nil
}

// kill does what kill -9 does.
func (f *fleet) kill(id int) error {
	p := f.running[id]
	delete(f.running, id)
	if err := p.cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill -9 of peer %d: %w", id, err)
	}
	for {
		select {
		case line := <-f.lines: // somebody's, and p's last ones
			fmt.Println(line)
			continue
		case <-p.ended:
		}
		_ = p.cmd.Wait() // says that it was killed, and closes its leash
		return nil
	}
}

// end lets all end, and waits until they have.
func (f *fleet) end() (err error) {
	for _, p := range f.running {
		err = errors.Join(err, p.leash.Close())
	}
	for id, p := range f.running {
		select {
		case <-p.ended:
		case <-time.After(patience):
			err = errors.Join(err, fmt.Errorf("peer %d has not ended in %v: killed", id, patience), p.cmd.Process.Kill())
			<-p.ended
		}
		if ended := p.cmd.Wait(); ended != nil {
			err = errors.Join(err, fmt.Errorf("peer %d: %w", id, ended))
		}
	}
	return err
}

// addressesFor returns -peers for n peers on this machine. The ports are below those that
// systems give to connections: one that dials a port of nobody could else be given the same
// one, and be connected to itself.
func addressesFor(n int) (string, error) {
	var peers []string
	for tries, port := 0, 20000+rand.IntN(10000); len(peers) < n; port++ {
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			if tries++; tries > 100 {
				return "", err
			}
			continue
		}
		if err := listener.Close(); err != nil {
			return "", err
		}
		peers = append(peers, fmt.Sprintf("%d=127.0.0.1:%d", len(peers)+1, port))
	}
	return strings.Join(peers, ","), nil
}
