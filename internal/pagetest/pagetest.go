// Package pagetest checks that a page of docs shows code that compiles and runs.
package pagetest

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Shows checks that the page shows all the code of these files: a reader who copies it has a program that
// runs.
func Shows(t *testing.T, page string, files ...string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, flush(m[1]))
	}
	left := make(map[string]string) // the lines of each file that no block has
	for _, file := range files {
		code, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		left[file] = flush(string(code))
	}
	for _, block := range blocks {
		found := false
		for file, code := range left {
			if before, after, ok := strings.Cut(code, block); ok {
				left[file], found = before+"\n"+after, true
			}
		}
		if !found {
			t.Errorf("a block of %s is in no file, or twice on the page:%s", page, block)
		}
	}
	for file, code := range left {
		if rest := strings.TrimSpace(code); rest != "" {
			t.Errorf("%s: not on %s:\n%s", file, page, rest)
		}
	}
}

// flush returns code without indentation, each line between two newlines.
func flush(code string) string {
	return "\n" + regexp.MustCompile(`(?m)^[\t ]+`).ReplaceAllString(strings.TrimRight(code, "\n"), "") + "\n"
}
