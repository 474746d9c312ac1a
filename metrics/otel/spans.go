package electorotel

import (
	"context"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/elector-go/elector"
	"github.com/elector-go/elector/backend"
	"github.com/elector-go/elector/internal/measure"
)

// spans are the spans of one elector: one campaign and one term at a time.
type spans struct {
	tracer   trace.Tracer
	election string
	common   []attribute.KeyValue

	mu       sync.Mutex
	campaign trace.Span // the latest campaign's
	term     *elector.Term
	tenure   trace.Span // of term
}

func newSpans(tracer trace.Tracer, election string, common []attribute.KeyValue) *spans {
	none := trace.SpanFromContext(context.Background())
	return &spans{tracer: tracer, election: election, common: common, campaign: none, tenure: none}
}

func (s *spans) hooks() elector.Hooks {
	return elector.Hooks{
		Campaign: s.campaigns,
		Stage: func(stage elector.StageEvent) {
			if stage.Stage == elector.StageFailed && stage.Completed && stage.Err != nil {
				s.latestCampaign().RecordError(stage.Err, trace.WithAttributes(attribute.String("elector.reason", measure.Reason(stage.Err))))
			}
		},
		Elected: s.elected,
		Ended:   s.ended,
		Asked:   func(*elector.Term, elector.Request) { s.event("elector.asked") },
		Session: func(_ string, state backend.State) { s.event("elector.session." + state.String()) },
		Commit:  s.commits,
	}
}

// start begins a span of an operation.
func (s *spans) start(ctx context.Context, operation string, options ...trace.SpanStartOption) trace.Span {
	name := strings.TrimSpace(operation + " " + s.election)
	_, span := s.tracer.Start(ctx, name, append(options, trace.WithAttributes(s.common...))...)
	return span
}

// fail marks a span as failed, with the error's class.
func fail(span trace.Span, class string, err error) {
	span.SetAttributes(attribute.String("error.type", class))
	span.SetStatus(codes.Error, err.Error())
}

func token(t *elector.Term) attribute.KeyValue {
	return attribute.Int64("elector.token", int64(t.Token()))
}

func (s *spans) campaigns(c elector.CampaignEvent) {
	if !c.Completed {
		span := s.start(c.Context, "campaign")
		s.mu.Lock()
		defer s.mu.Unlock()
		s.campaign = span
		return
	}
	span, outcome := s.latestCampaign(), measure.CampaignOutcome(c)
	span.SetAttributes(attribute.String("elector.outcome", outcome))
	switch outcome {
	case measure.Elected:
		span.SetAttributes(token(c.Term))
	case measure.Failed:
		fail(span, measure.Reason(c.Err), c.Err)
	}
	span.End()
}

// latestCampaign returns the latest campaign's span.
func (s *spans) latestCampaign() trace.Span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.campaign
}

func (s *spans) elected(t *elector.Term) {
	span := s.start(context.Background(), "term", trace.WithNewRoot(), trace.WithAttributes(token(t)),
		trace.WithLinks(trace.Link{SpanContext: s.latestCampaign().SpanContext()}))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.term, s.tenure = t, span
}

func (s *spans) ended(_ *elector.Term, err error) {
	s.mu.Lock()
	span := s.tenure // no other term is elected before this one has ended
	s.mu.Unlock()
	cause := measure.Cause(err)
	span.SetAttributes(attribute.String("elector.cause", cause))
	if !slices.Contains([]string{"resigned", "asked", "closed"}, cause) {
		fail(span, cause, err)
	}
	span.End()
}

// event adds an event to the span of the term; it adds nothing to a span that has ended.
func (s *spans) event(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tenure.AddEvent(name)
}

// commits makes the span of a completed commit.
func (s *spans) commits(c elector.CommitEvent) {
	outcome := measure.CommitOutcome(c.Err)
	span := s.start(c.Context, "commit", trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(c.Began),
		trace.WithLinks(s.link(c.Term)), trace.WithAttributes(
			token(c.Term), attribute.Int("elector.ops", c.Writes), attribute.String("elector.outcome", outcome)))
	if !slices.Contains([]string{measure.OK, "conflict", "cancelled"}, outcome) {
		fail(span, outcome, c.Err)
	}
	span.End(trace.WithTimestamp(c.Began.Add(c.Took)))
}

// link returns a link to the span of a term, if it is the latest.
func (s *spans) link(t *elector.Term) trace.Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t != s.term {
		return trace.Link{}
	}
	return trace.Link{SpanContext: s.tenure.SpanContext(), Attributes: []attribute.KeyValue{token(t)}}
}
