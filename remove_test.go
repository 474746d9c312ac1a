package elector_test

import (
	"errors"
	"testing"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy/fair"
	"github.com/elector-go/elector/strategy/kafka"
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
	}
	if s := service.Stats(); s.Sessions != 0 || s.Commits != 0 {
		t.Errorf("there were sessions or commits: %+v", s)
	}
}

// An epoch that is removed would begin anew, so it is not.
func TestRemoveOfAnEpoch(t *testing.T) {
	service := memory.New(memory.Options{})
	e, err := elector.New(elector.Config{Backend: service, Strategy: kafka.New(), Election: "/e", ID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Campaign(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	was := service.Dump()
	if err := elector.Remove(t.Context(), service, kafka.New(), "/e"); !errors.Is(err, elector.ErrConfig) {
		t.Errorf("Remove: %v, want ErrConfig", err)
	}
	if now := service.Dump(); now != was {
		t.Errorf("there is now\n%s\nand there was\n%s", now, was)
	}
}
