package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
	"github.com/elector-go/elector/internal/servertest"
	"github.com/elector-go/elector/internal/services"
)

// The story is told in fake time: two sessions, one of which times out.
func TestStory(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var out bytes.Buffer
		anna, ben, done, err := links(t.Context(), "mem://")
		require.NoError(t, err)
		require.NoError(t, story(t.Context(), &out, dir, "/invoices", anna, ben))
		require.NoError(t, done())
		require.Less(t, time.Since(began), 2*time.Second)
		isToldWell(t, out.String())
	})
}

// The story with the tokens of real services.
func TestServices(t *testing.T) {
	servertest.Long(t, "a server of each service")
	tells := func(t *testing.T, url string) {
		var out bytes.Buffer
		require.NoError(t, run(t.Context(), &out, url, "/jobs/invoices"), url)
		isToldWell(t, out.String())
	}
	tells(t, "mem://remote")
	services.OnEach(t, func(t *testing.T, s services.Service) { tells(t, s.URL(s.ForTest(t).Addr(), time.Minute)) })
}

func isToldWell(t *testing.T, told string) {
	t.Helper()
	t.Log("\n" + told)
	old, current := token(t, told, "anna"), token(t, told, "ben")
	require.Greater(t, current, old)
	before, after, _ := strings.Cut(told, "anna  WAKES UP")
	late, end, _ := strings.Cut(after, "in the end:")

	require.NotContains(t, before, "REFUSED")
	require.Contains(t, before, "term holds: true", "the check before the pause")
	require.Contains(t, late, "term holds: false", "the check that comes too late")
	for _, place := range []string{"row", "file"} {
		says(t, before, place+" +written")
		says(t, late, fmt.Sprintf("%s +REFUSED: .*%d.*%d", place, old, current))
		says(t, end, fmt.Sprintf(`%s +"250 sent", token %d`, place, current))
		says(t, late, "unfenced "+place+" +written")
		says(t, end, "unfenced "+place+` +"101 sent": LOST UPDATE`)
	}
}

// token returns the token with which somebody leads.
func token(t *testing.T, told, who string) (token uint64) {
	t.Helper()
	_, after, _ := strings.Cut(told, who+" ")
	_, after, _ = strings.Cut(after, "LEADS with token ")
	require.NoError(t, must.Err(fmt.Sscan(after, &token)), told)
	return token
}

// says requires a line like this.
func says(t *testing.T, told, line string) {
	t.Helper()
	require.Regexp(t, regexp.MustCompile(`(?m)^ *\d+\.\d{3}s +`+line), told)
}
