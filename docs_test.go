package elector_test

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/internal/must"
)

// longest is the maximum number of characters in a line of a page. Code and generated tables may have
// more.
const longest = 160

// generated begins the part of a page that a test writes, to the end of the page.
const generated = "<!-- TestDocs writes the rest of this page. -->"

// tracked returns the files of the repository, of all its modules.
func tracked(t *testing.T) []string {
	t.Helper()
	out, err := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Skipf("no repository: git ls-files: %v", err) // for example in a user's module cache
	}
	return strings.Fields(string(out))
}

// texts returns the contents of the files with an extension, by name. It skips deleted files not yet
// committed.
func texts(t *testing.T, files []string, ext string) map[string]string {
	t.Helper()
	texts := make(map[string]string)
	for _, file := range files {
		if path.Ext(file) != ext {
			continue
		}
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		texts[file] = string(text)
	}
	return texts
}

// pages returns the lines of the Markdown files, by name. Lines of code blocks are empty.
func pages(t *testing.T, files []string) map[string][]string {
	t.Helper()
	pages := make(map[string][]string)
	for file, text := range texts(t, files, ".md") {
		lines := strings.Split(text, "\n")
		for i, code := 0, false; i < len(lines); i++ {
			if fence := strings.HasPrefix(strings.TrimSpace(lines[i]), "```"); fence || code {
				lines[i], code = "", fence != code
			}
		}
		pages[file] = lines
	}
	return pages
}

var item = regexp.MustCompile(`^\s*([-*]|\d+\.) `)

// TestPageLines checks that no line of a page is too long for a readable diff, and that no paragraph, list
// item or table row is too long to read.
func TestPageLines(t *testing.T) {
	const most = 120
	for file, lines := range pages(t, tracked(t)) {
		words := 0
		for i, line := range lines {
			if line == generated {
				break
			}
			if n := utf8.RuneCountInString(line); n > longest {
				t.Errorf("%s:%d: %d characters: %d at most; a cell of a table that long is a paragraph", file, i+1, n, longest)
			}
			if line == "" || item.MatchString(line) || strings.HasPrefix(line, "|") {
				words = 0
			}
			before := words
			words += len(strings.Fields(line))
			if before <= most && words > most {
				t.Errorf("%s:%d: more than %d words without a break", file, i+1, most)
			}
		}
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`^#+ (.*)`)
)

// anchor returns the name that GitHub gives to a heading.
func anchor(heading string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
			b.WriteRune(r)
		case r == ' ':
			b.WriteByte('-')
		}
	}
	return b.String()
}

// TestPageLinks checks that each link from a page into the repository has a target.
func TestPageLinks(t *testing.T) {
	all := pages(t, tracked(t))
	anchors := make(map[string][]string)
	for file, lines := range all {
		for _, line := range lines {
			if m := heading.FindStringSubmatch(line); m != nil {
				anchors[file] = append(anchors[file], anchor(m[1]))
			}
		}
	}
	for file, lines := range all {
		for i, line := range lines {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				to, part, _ := strings.Cut(m[1], "#")
				if strings.Contains(to, "://") {
					continue
				}
				target := file
				if to != "" {
					target = path.Join(path.Dir(file), to)
				}
				if _, err := os.Stat(target); err != nil {
					t.Errorf("%s:%d: link to %s: there is no %s", file, i+1, m[1], target)
				} else if part != "" && !slices.Contains(anchors[target], part) {
					t.Errorf("%s:%d: link to %s: %s has no such heading", file, i+1, m[1], target)
				}
			}
		}
	}
}

var (
	quoted   = regexp.MustCompile("`([^`]+)`")
	makes    = regexp.MustCompile(`\bmake( -\S+)*(( [a-z][a-z-]*\b)+)`)
	targets  = regexp.MustCompile(`(?m)^([a-z][a-z -]*):`)
	fileName = regexp.MustCompile(`^[\w.-]+(/[\w.-]+)*\.(go|md|sh|svg|mod|sum)$`)
	testName = regexp.MustCompile(`\b(Test|Fuzz|Benchmark|Example)[A-Z]\w*`)
	inGo     = regexp.MustCompile(`\b(docs/[\w-]+\.(?:md|svg)|[A-Z]+\.md)\b`)
)

// TestPageNames checks that the files, tests and make targets that pages name in backquotes exist, and the
// pages that comments name. The beginning of a test's name is enough.
func TestPageNames(t *testing.T) {
	files := tracked(t)
	makefile := must.Get(os.ReadFile("Makefile"))(t)
	var made []string
	for _, m := range targets.FindAllStringSubmatch(string(makefile), -1) {
		made = append(made, strings.Fields(m[1])...)
	}
	var tests strings.Builder
	for file, text := range texts(t, files, ".go") {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "func ") {
				tests.WriteString(line)
			}
			_, comment, _ := strings.Cut(line, "//")
			for _, name := range inGo.FindAllString(comment, -1) {
				if !slices.Contains(files, name) && !slices.Contains(files, path.Join(path.Dir(file), name)) {
					t.Errorf("%s: a comment names %s, which is not there", file, name)
				}
			}
		}
	}
	exists := func(page, name string) bool {
		return slices.ContainsFunc(files, func(file string) bool {
			// The name itself, or relative to the page's folder, or only the last part.
			return file == name || file == path.Join(path.Dir(page), name) || !strings.Contains(name, "/") && path.Base(file) == name
		})
	}
	for page, lines := range pages(t, files) {
		for i, line := range lines {
			for _, m := range quoted.FindAllStringSubmatch(line, -1) {
				if fileName.MatchString(m[1]) && !exists(page, m[1]) && page != "docs/start.md" {
					t.Errorf("%s:%d: there is no file %s", page, i+1, m[1])
				}
				for _, line := range makes.FindAllStringSubmatch(m[1], -1) {
					for target := range strings.FieldsSeq(line[2]) {
						if !slices.Contains(made, target) {
							t.Errorf("%s:%d: there is no make %s", page, i+1, target)
						}
					}
				}
				for _, name := range testName.FindAllString(m[1], -1) {
					if !strings.Contains(tests.String(), " "+name) {
						t.Errorf("%s:%d: there is no test that begins with %s", page, i+1, name)
					}
				}
			}
		}
	}
}

// TestReadmeCode checks that README.md shows code of the examples, which is compiled and run.
func TestReadmeCode(t *testing.T) {
	text := must.Get(os.ReadFile("README.md"))(t)
	examples := must.Get(filepath.Glob("example_*_test.go"))(t)
	var code strings.Builder
	for _, file := range examples {
		text := must.Get(os.ReadFile(file))(t)
		code.WriteString(flush(string(text)))
	}
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	if len(blocks) == 0 {
		t.Error("README.md shows no code")
	}
	for _, block := range blocks {
		if !strings.Contains(code.String(), flush(block[1])) {
			t.Errorf("in no example_*_test.go:\n%s", block[1])
		}
	}
}

// flush returns code without indentation.
func flush(code string) string {
	return regexp.MustCompile(`(?m)^[\t ]+`).ReplaceAllString(code, "")
}

// TestObservabilityPage checks that docs/observability.md quotes each message logged at Info or above word by
// word.
func TestObservabilityPage(t *testing.T) {
	page := must.Get(os.ReadFile("docs/observability.md"))(t)
	logged := regexp.MustCompile(`\.(?:Info|Warn|Error)\("([^"]+)"`)
	messages := 0
	for file, code := range texts(t, tracked(t), ".go") {
		dir := path.Dir(file)
		if strings.HasSuffix(file, "_test.go") || dir != "." && !strings.HasPrefix(dir, "backend/") {
			continue
		}
		for _, m := range logged.FindAllStringSubmatch(code, -1) {
			messages++
			if !strings.Contains(string(page), "`"+m[1]+"`") {
				t.Errorf("docs/observability.md does not explain `%s` of %s", m[1], file)
			}
		}
	}
	if messages == 0 {
		t.Error("no message found in the code")
	}
}
