//go:build !linux

package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
)

// Listen fails.
func Listen(context.Context, string, fs.FileMode) (*net.UnixListener, error) {
	return nil, fmt.Errorf("an agent takes Linux: %w", errors.ErrUnsupported)
}
