package mutants

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// registerMutants are of package register. No wrapper can make them: their faults are in how the package
// observes sessions and finds out what was done. Each puts worse in the place of text, which is in the file
// once. In worse, MUTANT is true. All that tests names must fail.
var registerMutants = []struct {
	name, breaks, file, text, worse, tests string
}{
	{
		"removal not conditional on the beat", "A removal is done even if the owner has sent a heartbeat since.",
		"write.go", `
	tag, err := w.link.store.Swap(ctx, w.swap.object, w.swap.tag)`, `
	tag, err := w.link.store.Swap(ctx, w.swap.object, w.swap.tag)
	if MUTANT && errors.Is(err, ErrMoved) && len(w.swap.doc.Sessions) < len(w.snap.sessions()) {
		_, now, _ := w.link.store.Read(ctx)
		tag, err = w.link.store.Swap(ctx, w.swap.object, now)
	}`,
		"TestRemovalTooLate",
	},
	{
		"clock of the session", "An observer counts from its first sight of the session, and not of the beat.",
		"link.go", `
			l.beats[id] = sighting{r.Beat, now}`, `
			if MUTANT && known {
				now := at.first
				l.beats[id] = sighting{r.Beat, now}
				continue
			}
			l.beats[id] = sighting{r.Beat, now}`,
		"TestOrders TestConformance/rules/await/blocks",
	},
	{
		"clock from before the first sight", "A newcomer takes half of the timeout of those that it finds for passed.",
		"link.go", `
	for id, r := range snap.sessions() {
		if at, known := l.beats[id]; !known || at.beat != r.Beat {`, `
	for id, r := range snap.sessions() {
		if at, known := l.beats[id]; MUTANT && !known && len(l.sessions) == 0 {
			l.beats[id] = sighting{r.Beat, now.Add(-r.TTL / 2)}
		} else if !known || at.beat != r.Beat {`,
		"TestOrders",
	},
	{
		"clock from the request", "An observer counts from when it has asked, and not from when the reply has come.",
		"link.go", `
	object, tag, err := l.store.Read(ctx)`, `
	asked := time.Now()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for id, at := range l.beats {
			if MUTANT && at.first.After(asked) {
				l.beats[id] = sighting{at.beat, asked}
			}
		}
	}()
	object, tag, err := l.store.Read(ctx)`,
		"TestSightingCountsFromReply",
	},
	{
		"no margin for clocks", "An observer removes a session when its window has ended, and not after its timeout.",
		"link.go", `now.Sub(at.first) >= r.TTL`, `(now.Sub(at.first) >= r.TTL || MUTANT && now.Sub(at.first) >= r.TTL-r.TTL/8)`,
		"TestSightingCountsFromReply",
	},
	{
		"older snapshot accepted", "A late reply or notice with an older snapshot replaces the one that is known.",
		"link.go", `(snap.seq() < known.seq() ||`, `(snap.seq() < known.seq() && !MUTANT ||`,
		"TestOrders",
	},
	{
		"slot ignored", "The outcome of a swap without a reply is not looked for.",
		"write.go", `case mine.Slot == w.swap.nonce:`, `case mine.Slot == w.swap.nonce && !MUTANT:`,
		"TestOrders TestMovedThoughDone TestConformance/rules/lost-reply/once",
	},
	{
		"doubt not removed", "What a swap has made whose caller has given up stays.",
		"write.go", `if d.nonce == mine.Slot {`, `if d.nonce == mine.Slot && !MUTANT {`,
		"TestOrders TestConformance/rules/lost-reply/cancelled",
	},
	{
		"doubt told as not done", "A commit that is given up without a reply returns an error as if it had not been done.",
		"write.go", `if w.swap == nil || !w.swap.unknown {`, `if w.swap == nil || !w.swap.unknown || MUTANT {`,
		"TestOrders",
	},
	{
		"window from the reply", "The window counts from when a swap is known to be done.",
		"write.go", `
	w.Extend(w.swap.began)`, `
	if MUTANT {
		w.Extend(time.Now())
	}
	w.Extend(w.swap.began)`,
		"TestOrders TestWindowCountsFromFirst",
	},
	{
		"window from a resend", "The window counts from when the swap was sent last.",
		"write.go", `if w.swap.began.IsZero() {`, `if w.swap.began.IsZero() || MUTANT {`,
		"TestWindowCountsFromFirst",
	},
	{
		"window from the reply to Open", "The first window counts from the reply.",
		"register.go", `
		s.Grant(id, sent, ttl, ttl/8)`, `
		if MUTANT {
			sent = time.Now()
		}
		s.Grant(id, sent, ttl, ttl/8)`,
		"TestOrders TestWindowCountsFromFirst",
	},
	{
		"first beat seen before", "An Open that is tried again has the beat that others may have seen long ago.",
		"register.go", `
		next.Sessions[id] = record{TTL: ttl, Beat: next.Sessions[id].Beat + 1, Slot: nonce}`, `
		if MUTANT {
			delete(next.Sessions, id)
		}
		next.Sessions[id] = record{TTL: ttl, Beat: next.Sessions[id].Beat + 1, Slot: nonce}`,
		"TestMovedThoughDone",
	},
	{
		"entry without a record counts", "The entries of a session stay when an operator has removed its record.",
		"document.go", `lives || e.Session == "" {`, `lives || e.Session == "" || MUTANT {`,
		"TestOrphan",
	},
	{
		"revisions that begin again", "Tokens fall when an operator has deleted the object.",
		"document.go", `
	n.Rev = max(n.Rev+1, uint64(max(now.UnixMilli(), 0))<<10)`, `
	if n.Rev++; !MUTANT {
		n.Rev = max(n.Rev, uint64(max(now.UnixMilli(), 0))<<10)
	}`,
		"TestObjectGoesBack",
	},
}

// The tests of package register find its mutants. All of these are in one program, which is compiled from a
// changed copy of the package; it is told which one it is. Without a mutant, the same tests pass.
func TestRegister(t *testing.T) {
	program := registerProgram(t)
	run := func(mutant, test string) (string, error) {
		cmd := exec.CommandContext(t.Context(), program, "-test.v", "-test.short", "-test.cpu=1", "-test.timeout=2m",
			"-test.run=^"+strings.ReplaceAll(test, "/", "$/^")+"$")
		cmd.Dir = registerDir
		cmd.Env = append(os.Environ(), envMutant+"="+mutant, "TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	passed := make(map[string]bool) // without a mutant
	for _, m := range registerMutants {
		if !strings.Contains(m.name, *only) {
			continue
		}
		for _, test := range strings.Fields(m.tests) {
			if !passed[test] {
				out, err := run("", test)
				require.NoError(t, err, "%s fails without a mutant:\n%s", test, out)
				require.Contains(t, out, "--- PASS: "+test, "there is no test %s", test)
				passed[test] = true
			}
			if out, err := run(m.name, test); err == nil {
				t.Errorf("mutant %q of register: %s does not find it", m.name, test)
			} else if *table {
				t.Logf("%s: %s\n%s", m.name, test, out)
			}
		}
	}
}

const registerDir = "../../backend/register"

// registerProgram compiles the tests of package register with the mutants, and returns the path.
func registerProgram(t *testing.T) string {
	dir, err := filepath.Abs(registerDir)
	require.NoError(t, err)
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	texts := map[string]string{"mutant.go": "package register\n\nimport \"os\"\n\nvar mutant = os.Getenv(\"" + envMutant + "\")\n"}
	for _, path := range paths { // all, so that Go runs this test again when one has changed
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		texts[filepath.Base(path)] = string(text)
	}
	for _, m := range registerMutants {
		require.Equal(t, 1, strings.Count(texts[m.file], m.text), "mutant %q: the text is not in %s once: move the mutant with it:\n%s", m.name, m.file, m.text)
		is, err := json.Marshal(m.name)
		require.NoError(t, err)
		texts[m.file] = strings.Replace(texts[m.file], m.text, strings.ReplaceAll(m.worse, "MUTANT", "(mutant == "+string(is)+")"), 1)
	}
	scratch := t.TempDir()
	overlay := make(map[string]string)
	for name, text := range texts {
		overlay[filepath.Join(dir, name)] = filepath.Join(scratch, name)
		require.NoError(t, os.WriteFile(filepath.Join(scratch, name), []byte(text), 0o600))
	}
	list, err := json.Marshal(map[string]any{"Replace": overlay})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(scratch, "overlay.json"), list, 0o600))
	program := filepath.Join(scratch, "register.test")
	cmd := exec.Command("go", "test", "-race=false", "-vet=off", "-c", "-overlay", filepath.Join(scratch, "overlay.json"), "-o", program, registerDir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go test -c: %v\n%s", err, out)
	}
	return program
}
