package watchdog

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
)

// After an hour of the machine's sleep since the last heartbeat, the instant that the watchdog knows does not
// move until the next one, and a heartbeat that may be from before the sleep does not grant the hour.
func TestUntilAfterSleep(t *testing.T) {
	told, orders, err := os.Pipe()
	require.NoError(t, err)
	defer discard(told)
	c := &Command{orders: orders}
	c.Until(time.Now().Add(time.Minute))
	before := now()
	deadline := time.Now().Add(2 * time.Minute)
	c.clock -= int64(time.Hour) // as if that were since
	c.Until(deadline)
	c.Until(deadline)
	c.Until(deadline.Add(time.Minute))
	c.end()
	var instants []time.Duration
	for lines := bufio.NewScanner(told); lines.Scan(); {
		at := must.Get(strconv.ParseInt(strings.TrimSpace(lines.Text()), 10, 64))(t)
		instants = append(instants, time.Duration(at-before).Round(time.Minute))
	}
	assert.Equal(t, []time.Duration{time.Minute, 2*time.Minute - time.Hour, 3 * time.Minute}, instants)
}
