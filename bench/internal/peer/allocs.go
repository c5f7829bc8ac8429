package peer

import (
	"bytes"
	"context"
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

// mallocsName begins the line of the metric (prometheus/client_golang, go_collector.go).
const mallocsName = "\ngo_memstats_mallocs_total "

// mallocs returns how many heap objects a server has allocated since its start.
func mallocs(conn wire.Conn) (int64, error) {
	var body bytes.Buffer
	if _, err := conn.Do(wire.Request{Path: "/metrics", Accept: "text/plain"}, &body); err != nil {
		return 0, err
	}
	_, rest, ok := bytes.Cut(body.Bytes(), []byte(mallocsName))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	if !ok {
		return 0, fmt.Errorf("no %s in the metrics", mallocsName[1:len(mallocsName)-1])
	}
	n, err := strconv.ParseFloat(string(line), 64)
	if err != nil {
		return 0, fmt.Errorf("read the metric: %w", err)
	}
	return int64(n), nil
}
