package catalog_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/strategy/catalog"
)

// beside are the packages in strategy/ that are not strategies.
var beside = []string{"catalog", "entries"}

// TestComplete holds that catalog.All has each strategy package once, under its own name.
func TestComplete(t *testing.T) {
	folders := must.Get(os.ReadDir(".."))(t)
	names := catalog.Names()
	for _, f := range folders {
		if name := f.Name(); f.IsDir() && !slices.Contains(beside, name) && !slices.Contains(names, name) {
			t.Errorf("strategy/%s is not in catalog.All: enter it there, with its traits", name)
		}
	}
	for i, name := range names {
		if _, err := os.Stat(filepath.Join("..", name, name+".go")); err != nil {
			t.Errorf("the strategy %q is not in a package of its name: %v", name, err)
		}
		assert.False(t, slices.Contains(names[:i], name), "%q is listed twice", name)
		if item, ok := catalog.Named(name); !ok || item.Strategy.Name() != name {
			t.Errorf("by %q one finds %v, %v", name, item, ok)
		}
	}
	if item, ok := catalog.Named("fairer"); ok {
		t.Errorf("there is a strategy named %q: %+v", "fairer", item)
	}
}

// TestTraits holds the traits that no rule of package conformance checks.
func TestTraits(t *testing.T) {
	for _, item := range catalog.All() {
		t.Run(item.Strategy.Name(), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { try(t, item) }) })
	}
}

func try(t *testing.T, item catalog.Item) {
	service := memory.New(memory.Options{})
	stand := func(id string) (elector.Elector, error) {
		return elector.New(elector.Config{Backend: service, Strategy: item.Strategy, Election: "/e", ID: id})
	}
	if e, err := stand("anna"); (err != nil) != item.Numeric {
		t.Errorf("an ID that is no number: %v, and Numeric is %v", err, item.Numeric)
	} else if err == nil {
		defer func() { _ = e.Close(t.Context()) }()
	}
	leads := must.Get(stand("1"))(t)
	waits := must.Get(stand("2"))(t)
	if _, err := leads.Campaign(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := waits.Campaign(t.Context())
		done <- err
	}()
	synctest.Wait()
	all := must.Get(leads.Candidates(t.Context()))(t)
	if listed := len(all) == 2; listed != item.Lists {
		t.Errorf("with one who waits Candidates is %+v, and Lists is %v", all, item.Lists)
	}
	assert.NoError(t, waits.Close(t.Context()))
	if err := <-done; !errors.Is(err, elector.ErrClosed) {
		t.Error(err)
	}
	assert.NoError(t, leads.Close(t.Context()))
}

// TestDocuments holds that the table that compares strategies has a row for each.
func TestDocuments(t *testing.T) {
	text := string(must.Get(os.ReadFile("../../docs/strategies.md"))(t))
	_, table, _ := strings.Cut(text, "\n| strategy | ")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, name := range catalog.Names() {
		if !strings.Contains(table, "\n| "+name+" | ") {
			t.Errorf("docs/strategies.md: the table that begins with \"| strategy | \" has no row for %s", name)
		}
	}
}
