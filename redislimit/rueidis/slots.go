package rueidis

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// slots knows which node of a cluster has which slot. If a slot has moved, that is noticed when a call gets no reply: until then the
// name of a node stands for the slots that it had.
type slots struct {
	ranges atomic.Pointer[[]slotRange] // nil until the cluster has replied
	asking atomic.Bool
}

type slotRange struct {
	first, last int64
	node        string
}

// slotsWithin is how long a node may take to say where the slots are, before the next one is asked.
const slotsWithin = time.Second

// Node implements an option of [redislimit.Store].
func (s *store) Node(key string) string {
	ranges := s.slots.ranges.Load()
	if ranges == nil {
		return ""
	}
	get := s.client.B().Get().Key(key).Build() // it is not sent
	slot := int64(get.Slot())
	for _, r := range *ranges {
		if r.first <= slot && slot <= r.last {
			return r.node
		}
	}
	return ""
}

// refresh asks the cluster, in the background, if it has never replied, or if a node has failed. One goroutine asks at a time, and it
// ends soon.
func (s *slots) refresh(c rueidis.Client, failed bool) {
	if !failed && s.ranges.Load() != nil || !s.asking.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer s.asking.Store(false)
		for _, node := range c.Nodes() { // they come in random order
			if ranges := ask(node); ranges != nil {
				s.ranges.Store(&ranges)
				return
			}
		}
	}()
}

// ask asks a node for the slots. It returns nil if the node does not reply with any.
func ask(node rueidis.Client) []slotRange {
	ctx, cancel := context.WithTimeout(context.Background(), slotsWithin) //nolint:forbidigo // it is for all callers
	defer cancel()
	reply, err := node.Do(ctx, node.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil
	}
	var ranges []slotRange
	for _, entry := range reply { // first, last, the primary, its replicas
		fields, err := entry.ToArray()
		if err != nil || len(fields) < 3 {
			continue
		}
		first, err1 := fields[0].AsInt64()
		last, err2 := fields[1].AsInt64()
		primary, err3 := fields[2].ToArray() // address, port, id
		if err1 != nil || err2 != nil || err3 != nil || len(primary) < 3 {
			continue
		}
		if id, err := primary[2].ToString(); err == nil {
			ranges = append(ranges, slotRange{first, last, id})
		}
	}
	return ranges
}
