package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/gapless-io/gapless/bench/internal/wire"
)

// Allocs does work and returns how many heap objects the server allocated meanwhile,
// by its metrics. It subtracts what it costs to ask for them.
func (s *Server) Allocs(ctx context.Context, work func() error) (int64, error) {
	conn, err := s.Target.Dial(ctx, wire.HTTP1)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	var counts [3]int64
	for i := range counts {
		if i == 2 {
			if err := work(); err != nil {
				return 0, err
			}
		}
		if counts[i], err = mallocs(conn); err != nil {
			return 0, fmt.Errorf("count the allocations of %s: %w", s.Name, err)
		}
	}
	asking := counts[1] - counts[0]
	return counts[2] - counts[1] - asking, nil
}

// mallocsName is the metric of allocations (prometheus/client_golang, go_collector.go).
const mallocsName = "go_memstats_mallocs_total"

// mallocs returns how many heap objects a server has allocated since its start.
func mallocs(conn wire.Conn) (int64, error) {
	var body bytes.Buffer
	if _, err := conn.Do(wire.Request{Path: "/metrics", Accept: "text/plain"}, &body); err != nil {
		return 0, err
	}
	n, err := sum(body.Bytes(), mallocsName, nil)
	if err == nil && n == 0 {
		err = errors.New("no " + mallocsName + " in the metrics")
	}
	return int64(n), err
}

// sum adds up the values of a metric that have all the labels.
func sum(metrics []byte, name string, labels []string) (float64, error) {
	total := 0.
	for line := range bytes.Lines(metrics) {
		rest, ok := bytes.CutPrefix(line, []byte(name))
		if !ok || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		for _, label := range labels {
			ok = ok && bytes.Contains(rest, []byte(label))
		}
		if !ok {
			continue
		}
		fields := bytes.Fields(rest[bytes.LastIndexByte(rest, '}')+1:])
		if len(fields) == 0 {
			return 0, fmt.Errorf("the metric %q has no value", line)
		}
		v, err := strconv.ParseFloat(string(fields[0]), 64)
		if err != nil {
			return 0, fmt.Errorf("read the metric: %w", err)
		}
		total += v
	}
	return total, nil
}
