package elector_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/backend/memory"
	"github.com/elector-go/elector/strategy"
	"github.com/elector-go/elector/strategy/fair"
)

func valid() elector.Config {
	return elector.Config{
		Backend: memory.New(memory.Options{}), Strategy: fair.Strategy{},
		Election: "/test/config", ID: "a",
	}
}

// nameless is a strategy without a name.
type nameless struct{ strategy.Strategy }

func (nameless) Name() string { return "" }

func TestNewReportsEachViolation(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*elector.Config)
		want  []string // field, value and rule
	}{
		"nil backend":         {func(c *elector.Config) { c.Backend = nil }, []string{"Config.Backend", "nil"}},
		"typed nil backend":   {func(c *elector.Config) { c.Backend = (*memory.Service)(nil) }, []string{"Config.Backend", "nil"}},
		"nil strategy":        {func(c *elector.Config) { c.Strategy = nil }, []string{"Config.Strategy", "nil"}},
		"nameless strategy":   {func(c *elector.Config) { c.Strategy = nameless{c.Strategy} }, []string{"Config.Strategy"}},
		"empty election":      {func(c *elector.Config) { c.Election = "" }, []string{"Config.Election", "empty"}},
		"relative election":   {func(c *elector.Config) { c.Election = "jobs/x" }, []string{"Config.Election", `"jobs/x"`, "relative"}},
		"election with dots":  {func(c *elector.Config) { c.Election = "/a/../b" }, []string{"Config.Election", `".."`}},
		"root":                {func(c *elector.Config) { c.Election = "/" }, []string{"Config.Election"}},
		"empty segment":       {func(c *elector.Config) { c.Election = "/jobs//x" }, []string{"Config.Election"}},
		"slash at the end":    {func(c *elector.Config) { c.Election = "/jobs/" }, []string{"Config.Election"}},
		"control in election": {func(c *elector.Config) { c.Election = "/jobs/\x00" }, []string{"Config.Election"}},
		"long election":       {func(c *elector.Config) { c.Election = "/" + strings.Repeat("x", 384) }, []string{"Config.Election", "385", "384"}},
		"deep election":       {func(c *elector.Config) { c.Election = strings.Repeat("/x", 61) }, []string{"Config.Election", "61", "60"}},
		"reserved election":   {func(c *elector.Config) { c.Election = "/zookeeper" }, []string{"Config.Election", "/zookeeper"}},
		"empty ID":            {func(c *elector.Config) { c.ID = "" }, []string{"Config.ID", "empty"}},
		"blank ID":            {func(c *elector.Config) { c.ID = "  " }, []string{"Config.ID", "blank"}},
		"long ID":             {func(c *elector.Config) { c.ID = strings.Repeat("x", 257) }, []string{"Config.ID", "257", "256"}},
		"ID with a control":   {func(c *elector.Config) { c.ID = "a\nb" }, []string{"Config.ID", "U+000A"}},
		"ID not UTF-8":        {func(c *elector.Config) { c.ID = "a\xff" }, []string{"Config.ID", "UTF-8"}},
		"large value":         {func(c *elector.Config) { c.Value = make([]byte, elector.MaxValue+1) }, []string{"Config.Value", "262145", "262144"}},
		"TTL too short":       {func(c *elector.Config) { c.TTL = time.Nanosecond }, []string{"Config.TTL", "1ns", "memory", "10ms"}},
		"TTL too long":        {func(c *elector.Config) { c.TTL = c.Backend.Limits().MaxTTL + 1 }, []string{"Config.TTL", "memory"}},
		"TTL negative":        {func(c *elector.Config) { c.TTL = -time.Second }, []string{"Config.TTL", "-1s"}},
		"TTL not the shared":  {func(c *elector.Config) { c.Backend, c.TTL = backend.Share(c.Backend, 9*time.Second), 4*time.Second }, []string{"Config.TTL", "4s", "9s", "backend.Share", "zero"}},
		"policy":              {func(c *elector.Config) { c.OnSuspend = 7 }, []string{"Config.OnSuspend", "7"}},
		"negative backoff":    {func(c *elector.Config) { c.RetryMin = -1 }, []string{"Config.RetryMin", "-1ns"}},
		"looks all the time":  {func(c *elector.Config) { c.SurveyEvery = 1 }, []string{"Config.SurveyEvery", "1ns", "1s"}},
		"no check":            {func(c *elector.Config) { c.Fit.Every = time.Second }, []string{"Config.Fit.Check", "nil"}},
		"checks backwards":    {func(c *elector.Config) { c.Fit = elector.Fit{Check: fit, Every: -time.Second} }, []string{"Config.Fit.Every", "-1s", "negative"}},
		"checks all the time": {func(c *elector.Config) { c.Fit = elector.Fit{Check: fit, Every: 5} }, []string{"Config.Fit.Every", "5ns", "10ms"}},
		"check has no time":   {func(c *elector.Config) { c.Fit = elector.Fit{Check: fit, Timeout: -1} }, []string{"Config.Fit.Timeout", "-1ns", "negative"}},
		"failures":            {func(c *elector.Config) { c.Fit = elector.Fit{Check: fit, Failures: -2} }, []string{"Config.Fit.Failures", "-2", "negative"}},
		"backoff bounds":      {func(c *elector.Config) { c.RetryMin, c.RetryMax = 2, 1 }, []string{"Config.RetryMax", "1ns", "2ns"}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := valid()
			c.spoil(&cfg)
			_, err := elector.New(cfg)
			require.ErrorIs(t, err, elector.ErrConfig)
			for _, part := range c.want {
				assert.ErrorContains(t, err, part)
			}
		})
	}
}
