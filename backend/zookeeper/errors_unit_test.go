package zookeeper

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-zookeeper/zk"

	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/driver"
)

// keeperCodes are the codes of KeeperException.Code in ZooKeeper 3.9, and two that servers before 3.5
// had.
var keeperCodes = []int32{
	-1, -2, -3, -4, -5, -6, -7, -8, -12, -13, -14,
	-100, -101, -102, -103, -108, -110, -111, -112, -113, -114, -115, -116, -117, -118, -119, -120, -121, -122, -123, -124, -125, -127,
}

// The table has each code of the servers, in each form in which the client library reports it.
func TestTableNamesEveryCode(t *testing.T) {
	told := make(map[int32]error)
	for err, code := range libraryCodes {
		told[code] = err
	}
	for _, code := range keeperCodes {
		m, ok := codeAnswers[code]
		if !ok {
			t.Errorf("the table lacks %d", code)
			continue
		}
		err := told[code]
		if err == nil {
			err = fmt.Errorf("unknown error: %v", zk.ErrCode(code)) // as the library makes it
		}
		for _, err := range []error{err, fmt.Errorf("list: %w", err)} {
			if got, ok := codeOf(err); !ok || got != code {
				t.Errorf("%v is code %d, %t; want %d", err, got, ok, code)
			}
			if mean(err) != m || transient(err) != m.Is(driver.Over) {
				t.Errorf("%v means %v, transient %t; want %v", err, mean(err), transient(err), m)
			}
			if why := readError(err); m.Sentinel != nil && !errors.Is(why, m.Sentinel) {
				t.Errorf("%v is told as %v, want %v", err, why, m.Sentinel)
			}
		}
	}
	for _, c := range []struct {
		err       error
		want      driver.Meaning
		transient bool
	}{
		{errors.New("unknown error: -999"), driver.Unknown, false},
		{zk.ErrNoAuth, driver.Final.As(backend.ErrDenied), false},
		{zk.ErrNoNode, driver.Final, false},
		{errors.New("unknown error: -127"), driver.NotDone, false},
		{zk.ErrSessionMoved, driver.Over, true},
		{fmt.Errorf("%w: unknown error: -1", errUnclear), driver.Unknown, true},
		// Errors that are no replies.
		{zk.ErrInvalidPath, driver.Final, false},
		{zk.ErrConnectionClosed, driver.Final, true},
		{io.EOF, driver.Final, true},
		{errors.New("never heard of"), driver.Final, false},
	} {
		if got := mean(c.err); got != c.want || transient(c.err) != c.transient {
			t.Errorf("%v means %v, transient %t; want %v, %t", c.err, got, transient(c.err), c.want, c.transient)
		}
	}
}

// The server reports "not authenticated" both for a wrong password and for a missing right: the error
// says so.
func TestNoAuthInWords(t *testing.T) {
	for _, err := range []error{readError(zk.ErrNoAuth), as(backend.ErrDenied, zk.ErrNoAuth)} {
		if !errors.Is(err, backend.ErrDenied) || !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("%v is not ErrDenied and ErrNoAuth", err)
		}
		for _, word := range []string{"ACL", "Config.Auth", "password"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("no %s in: %v", word, err)
			}
		}
	}
}
