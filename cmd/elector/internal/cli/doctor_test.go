package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector/cmd/elector/internal/doctor"
	"github.com/elector-go/elector/internal/services"
)

func TestDoctor(t *testing.T) {
	t.Setenv(urlVariable, "mem://cli-doctor")
	out, _ := run(t, OK, "doctor", "/jobs")
	assert.Regexp(t, `(?m)^ok  service  rights +these credentials may create, read, list, watch and delete below /jobs$`, out)
	assert.Regexp(t, `(?m)^ok  all +fit for elections$`, out)

	out, _ = run(t, OK, "doctor", "--json")
	var r doctor.Report
	require.NoError(t, json.Unmarshal([]byte(out), &r))
	assert.Equal(t, doctor.OK, r.Level)
	assert.Equal(t, "/", r.Path)
	assert.NotEmpty(t, r.Service)
}

func TestDoctorOfNothing(t *testing.T) {
	addr := nowhere(t)
	for _, scheme := range services.Schemes() {
		out, errs := run(t, Failed, "doctor", scheme+"://"+addr)
		assert.Contains(t, out, "connection refused")
		assert.Contains(t, out, "→ start the server, or check the port")
		assert.Contains(t, errs, "not fit for elections")
	}
}

func TestPrintable(t *testing.T) {
	assert.Equal(t, `a; b 主機 \x1b \u202e`, onOneLine("a\nb 主機 \x1b \u202e"))
}
