package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/elector-go/elector/conformance/history"
)

// saved saves a history of two terms; the second one has this token.
func saved(t *testing.T, second uint64) string {
	t.Helper()
	r := history.NewRecorder(history.Logical(), "").In("/jobs")
	for i, token := range []uint64{5, second} {
		e := r.Start(history.Event{Kind: history.Campaign, Candidate: string(rune('a' + i)), Token: token})
		r.Finish(e, nil)
	}
	path := filepath.Join(t.TempDir(), "history.jsonl")
	if err := r.History().Save(path); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRun(t *testing.T) {
	good, bad := saved(t, 6), saved(t, 4)
	page := filepath.Join(t.TempDir(), "page.html")
	for _, c := range []struct {
		args []string
		err  error
		says string
	}{
		{[]string{"check", good}, nil, "2 events, 2 terms"},
		{[]string{"check", bad}, errWrong, "b's term 4 came after a's term 5"},
		{[]string{"-dense", "check", saved(t, 7)}, errWrong, "not the next"},
		{[]string{"list", good}, nil, "b: campaign, token 6: ok"},
		{[]string{"draw", page, bad}, nil, ""},
		{[]string{"check", good, bad}, nil, "clocks differ"},
		{[]string{"check", "none"}, os.ErrNotExist, ""},
		{[]string{"check"}, errUsage, ""},
		{[]string{"draw", page}, errUsage, ""},
		{[]string{"paint", good}, errUsage, ""},
	} {
		var out bytes.Buffer
		err := run(c.args, &out, io.Discard)
		if c.err != nil && !errors.Is(err, c.err) || c.err == nil && err != nil && c.says != "clocks differ" {
			t.Errorf("%q: %v, want %v", c.args, err, c.err)
		}
		all := out.String()
		if err != nil {
			all += err.Error()
		}
		assert.Contains(t, all, c.says, c.args)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "term 5 begins") {
		t.Errorf("the page: %v, %d bytes", err, len(text))
	}
}
