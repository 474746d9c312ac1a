package compare

import (
	"context"
	"slices"
)

// figures are the service's own counts during leader changes, without the cost of asking for them.
type figures struct {
	service service

	why     error // why there are none
	changes int
	sum     map[string]float64
	asking  map[string]float64 // the cost of one reading
}

// settle measures the median cost of asking while all is quiet: a single cost may be off, as a heartbeat may
// be half done when the service is asked.
func (f *figures) settle(ctx context.Context) {
	f.sum, f.asking = make(map[string]float64), make(map[string]float64)
	costs := make(map[string][]float64)
	last := f.read(ctx)
	for range 5 {
		now := f.read(ctx)
		for name := range now {
			costs[name] = append(costs[name], now[name]-last[name])
		}
		last = now
	}
	for name, all := range costs {
		slices.Sort(all)
		f.asking[name] = all[len(all)/2]
	}
}

// read returns the service's counts so far, or nil. After one failure it does not ask again.
func (f *figures) read(ctx context.Context) map[string]float64 {
	if f.why != nil {
		return nil
	}
	values, err := f.service.figures(ctx)
	f.why = err
	return values
}

// add adds the counts between two readings, with one leader change between them.
func (f *figures) add(before, after map[string]float64) {
	if before == nil || after == nil {
		return
	}
	f.changes++
	for name := range after {
		f.sum[name] += after[name] - before[name] - f.asking[name]
	}
}

// perChange returns nil and the reason if there are no figures.
func (f *figures) perChange() (map[string]float64, error) {
	if f.changes == 0 {
		return nil, f.why
	}
	per := make(map[string]float64)
	for name, v := range f.sum {
		per[name] = v / float64(f.changes)
	}
	return per, nil
}
