package consul_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/consul"
	"github.com/elector-go/elector/strategy/fair"
)

// The environment that makes the tests' binary a candidate.
const (
	candidateAgent    = "ELECTOR_TEST_AGENT"
	candidateElection = "ELECTOR_TEST_ELECTION"
)

// candidate is a process that leads until it is killed.
type candidate struct {
	cmd *exec.Cmd
	out *bufio.Scanner
}

func startCandidate(t *testing.T, agent, election string) *candidate {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), candidateAgent+"="+agent, candidateElection+"="+election)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &candidate{cmd: cmd, out: bufio.NewScanner(out)}
	t.Cleanup(func() { _ = c.kill() }) // it may have been killed already
	return c
}

// leads waits until it leads, and returns the token.
func (c *candidate) leads(f *fixture) (token uint64) {
	f.t.Helper()
	said, err := receive(f, later(func() (string, error) {
		if !c.out.Scan() {
			return "", errors.Join(errors.New("it has ended"), c.out.Err())
		}
		return c.out.Text(), nil
	}))
	require.NoError(f.t, err)
	_, err = fmt.Sscanf(said, "leads %d", &token)
	require.NoError(f.t, err, said)
	return token
}

func (c *candidate) kill() error {
	if c.cmd.ProcessState != nil {
		return nil
	}
	if err := c.cmd.Process.Kill(); err != nil {
		return err
	}
	var killed *exec.ExitError
	if err := c.cmd.Wait(); !errors.As(err, &killed) {
		return fmt.Errorf("it was to be killed: %w", err)
	}
	return nil
}

// beCandidate is such a process's main function.
func beCandidate() error {
	cfg := api.DefaultConfig()
	cfg.Address = os.Getenv(candidateAgent)
	client, err := api.NewClient(cfg)
	if err != nil {
		return err
	}
	b, err := consul.New(client, checkAlone.Config)
	if err != nil {
		return err
	}
	e, err := elector.New(elector.Config{Backend: b, Strategy: fair.New(), Election: os.Getenv(candidateElection), ID: "child"})
	if err != nil {
		return err
	}
	return elector.Run(context.Background(), e, func(ctx context.Context, term *elector.Term) error {
		fmt.Println("leads", term.Token())
		<-ctx.Done()
		return context.Cause(ctx)
	})
}
