//go:build !linux

package lastwill

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/elector-go/elector/backend"
)

// errSystem says what is missing.
var errSystem = fmt.Errorf("only Linux (5.3 or later) has what proves that a process is dead, a pidfd: %w", errors.ErrUnsupported)

var marked *os.File

func becomeCompanion(*os.File, Opener, *slog.Logger) {}

func (b *Backend) accompany(Options) error { return errSystem }

func write(*net.UnixConn, message) error { return errSystem }

func serve(context.Context, *net.UnixListener, map[string]backend.Backend, *slog.Logger) error {
	return errSystem
}
