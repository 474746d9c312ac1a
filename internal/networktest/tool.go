package networktest

import (
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// tool runs one of the programs that networks are made with. An error shows what it said.
func tool(name string, args ...string) error {
	_, err := toolWith("", name, args...)
	return err
}

// toolWith is tool with something to read for the program. It returns what that printed.
func toolWith(stdin, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.WaitDelay = 5 * time.Second
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("networktest: %s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}
