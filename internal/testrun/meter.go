package main

import (
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
)

// metered is the word by which go test -exec has testrun start a test's program.
const metered = "metered"

// programsFolder is the variable in the environment that says where a run's records and CPU
// profiles go.
const programsFolder = "ELECTOR_TESTRUN_PROGRAMS"

// A program is what the meter records of a test's program. It goes into a file, as go test -json
// takes what is printed apart, and as the program may have ended within a line.
type program struct {
	Tests        []string // all it has, picked or not
	Exit         int      // its exit code, -1 if a signal ended it
	User, System float64  // processor time in seconds, its servers included
}

// meter starts the program, and ends with its exit code.
func meter(args []string) (code int, err error) {
	folder := os.Getenv(programsFolder)
	if len(args) == 0 || folder == "" {
		return 2, fmt.Errorf("metered: say which program, and in %s where its record goes", programsFolder)
	}
	pkg, err := packageOf(args[0])
	if err != nil {
		return 1, err
	}
	file := filepath.Join(folder, filepath.FromSlash(pkg))
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return 1, err
	}
	// A program that cannot list its tests can hardly run them, and then says why.
	tests, listErr := list(args[0])
	if triesRules(pkg) {
		args = append(args, "-test.cpuprofile="+file+".prof")
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	runtime.LockOSThread() // whose end is the child's, see endWithParent
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	// What go test tells a program that takes too long is for the program.
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGQUIT, syscall.SIGTERM)
	go func() {
		for s := range told {
			_ = cmd.Process.Signal(s) // it may have ended
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return 1, err
	}
	used := cmd.ProcessState
	p := program{tests, used.ExitCode(), used.UserTime().Seconds(), used.SystemTime().Seconds()}
	switch writeErr := p.write(file + ".json"); {
	case p.Exit < 0:
		return 1, err
	case p.Exit > 0:
		return p.Exit, nil
	case errors.Join(listErr, writeErr) != nil:
		return 1, errors.Join(listErr, writeErr)
	}
	return 0, nil
}

func (p program) write(file string) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o666)
}

// readProgram returns what the meter has recorded in a folder of a package's program, nil if
// there is no record: the package has no tests, did not compile, or was ended by force.
func readProgram(folder, pkg string) (*program, error) {
	text, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(pkg)+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p := new(program)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("the record of %s: %w", pkg, err)
	}
	return p, nil
}

// packageOf is the import path of the package whose tests a program has.
func packageOf(program string) (string, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "", err
	}
	return strings.TrimSuffix(info.Path, ".test"), nil
}

// triesRules tells whether a CPU profile of the package's tests is of use. (go test itself
// takes one of a single package only.)
func triesRules(pkg string) bool {
	return path.Base(pkg) == "conformance" || path.Base(path.Dir(pkg)) == "backend"
}

// isTest leaves out what a TestMain prints.
var isTest = regexp.MustCompile(`^(Test|Fuzz|Example)[\pL\pN_]*$`)

// list are the tests that a program has. Its TestMain runs for that, too.
func list(program string) (tests []string, err error) {
	out, err := exec.Command(program, "-test.list=.").Output()
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); isTest.MatchString(line) {
			tests = append(tests, line)
		}
	}
	if err == nil && len(tests) == 0 {
		err = errors.New("no tests: is m.Run missing in TestMain?")
	}
	if err != nil {
		return tests, fmt.Errorf("%s -test.list=.: %w", program, err)
	}
	return tests, nil
}
