package consul_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/assert"
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

// startCandidate starts a process that leads, with this token, until it is killed.
func (f *fixture) startCandidate(agent, election string) (token uint64, kill func()) {
	f.t.Helper()
	cmd := exec.CommandContext(f.ctx, os.Args[0])
	cmd.Env = append(os.Environ(), candidateAgent+"="+agent, candidateElection+"="+election)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	require.NoError(f.t, err)
	require.NoError(f.t, cmd.Start())
	kill = sync.OnceFunc(func() {
		assert.NoError(f.t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
	})
	f.t.Cleanup(kill)
	_, err = fmt.Fscanf(out, "leads %d\n", &token)
	require.NoError(f.t, err)
	return token, kill
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
