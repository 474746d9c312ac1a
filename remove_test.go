package elector_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
	"github.com/elector-go/elector/strategy/unfair"
)

func TestRemoveChecksItsArguments(t *testing.T) {
	service := memory.New(memory.Options{})
	for name, err := range map[string]error{
		"no backend":      elector.Remove(t.Context(), nil, fair.New(), "/e"),
		"no strategy":     elector.Remove(t.Context(), service, nil, "/e"),
		"a nil strategy":  elector.Remove(t.Context(), service, (*fair.Strategy)(nil), "/e"),
		"a nil Foreign":   elector.Remove(t.Context(), service, (*kafka.Strategy)(nil), "/e"),
		"a relative path": elector.Remove(t.Context(), service, fair.New(), "e"),
	} {
		if !errors.Is(err, elector.ErrConfig) {
			t.Errorf("Remove with %s: %v, want ErrConfig", name, err)
		}
		if strings.Contains(err.Error(), "Config.") || strings.Count(err.Error(), "elector:") != 1 {
			t.Errorf("Remove with %s speaks of a Config, which nobody gave: %v", name, err)
		}
	}
	if s := service.Stats(); s.Sessions != 0 || s.Commits != 0 {
		t.Errorf("there were sessions or commits: %+v", s)
	}
}

// Whoever removes an election has to know whom to stop, or what else is wrong.
func TestRemoveSaysWhoStandsAndWhatDiffers(t *testing.T) {
	service := memory.New(memory.Options{})
	var group sync.WaitGroup
	defer group.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for _, id := range []string{"anna", "ben"} {
		e, err := elector.New(elector.Config{Backend: service, Strategy: fair.New(), Election: "/e", ID: id})
		require.NoError(t, err)
		defer func() { _ = e.Close(context.Background()) }()
		if id == "anna" {
			_, err = e.Campaign(ctx)
		} else {
			group.Go(func() { _, _ = e.Campaign(ctx) })
			for standing := 0; standing < 2 && err == nil; {
				var all []elector.Candidate
				all, err = e.Candidates(ctx)
				standing = len(all)
			}
		}
		require.NoError(t, err)
	}
	says := func(err, want error, texts ...string) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Fatalf("Remove: %v, want %v", err, want)
		}
		for _, text := range texts {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("no %s in: %v", text, err)
			}
		}
	}
	says(elector.Remove(ctx, service, fair.New(), "/e"), elector.ErrInUse, `"anna"`, "2 candidates")
	err := elector.Remove(ctx, service, unfair.New(), "/e")
	says(err, elector.ErrStrategyMismatch, `"fair"`, `"unfair"`)
	if strings.Contains(err.Error(), "candidate") {
		t.Errorf("Remove is no candidate: %v", err)
	}
}

// What is in the directory and no candidate is named by its parent.
func TestRemoveOfADirectoryWithSomethingElse(t *testing.T) {
	service := memory.New(memory.Options{})
	e, err := elector.New(elector.Config{Backend: service, Strategy: fair.New(), Election: "/e", ID: "a"})
	require.NoError(t, err)
	term, err := e.Campaign(t.Context())
	require.NoError(t, err)
	dir := backend.Parent(term.Guard().Conditions[0].Entry.Key)
	require.NoError(t, e.Close(t.Context()))
	s, err := service.Open(t.Context(), backend.OpenOptions{})
	require.NoError(t, err)
	defer func() { _ = s.Close(context.Background()) }()
	if _, err := s.Commit(t.Context(), nil, backend.CompareAndSet(dir+"/mine", nil, 0)); err != nil {
		t.Fatal(err)
	}
	err = elector.Remove(t.Context(), service, fair.New(), "/e")
	if !errors.Is(err, elector.ErrInUse) || !strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "candidate") {
		t.Errorf("Remove: %v, want ErrInUse that names %s", err, dir)
	}
}

// An epoch that is removed would begin anew, so it is not.
func TestRemoveOfAnEpoch(t *testing.T) {
	service := memory.New(memory.Options{})
	e, err := elector.New(elector.Config{Backend: service, Strategy: kafka.New(), Election: "/e", ID: "1"})
	require.NoError(t, err)
	if _, err := e.Campaign(t.Context()); err != nil {
		t.Fatal(err)
	}
	require.NoError(t, e.Close(t.Context()))
	was := service.Dump()
	if err := elector.Remove(t.Context(), service, kafka.New(), "/e"); !errors.Is(err, elector.ErrConfig) {
		t.Errorf("Remove: %v, want ErrConfig", err)
	}
	if now := service.Dump(); now != was {
		t.Errorf("there is now\n%s\nand there was\n%s", now, was)
	}
}
