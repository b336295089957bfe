package limitertest

// rules are all there are, in the order in which they are checked.
var rules = []rule{
	{"checks come in order", 0, checksInOrder},
	{"more than the limit is refused for good", finite, moreThanLimit},
	{"zero permits is a probe", finite, probes},
	{"a probe ignores the queue", bubble | finite | pair | queued | room2, probeIgnoresQueue},
	{"a probe that waits stands outside the queue limit", bubble | drains, probeWaits},
	{"probes are served after the queue", bubble | finite | queued | long, probesComeLast},

	{"without a queue nobody waits", drains | queueless, nobodyWaits},
	{"the queue counts permits", bubble | drains | queued | bounded, queueCounts},
	{"a full queue rejects the newcomer", bubble | drains | queued | bounded | oldest, fullQueueRejects},
	{"a full queue evicts the oldest", bubble | drains | queued | bounded | newest, fullQueueEvicts},
	{"more than the queue limit evicts nobody", bubble | drains | queued | bounded | newest | short, tooBigEvictsNobody},
	{"nobody overtakes", bubble | finite | pair | queued | oldest | room2, nobodyOvertakes},
	{"a newcomer that fits goes first", bubble | finite | pair | queued | newest | room2, newcomerGoesFirst},
	{"the queue is served in order", bubble | finite | queued | contest, servedInOrder},
	{"serving stops at the first that does not fit", bubble | finite | pair | queued | held | room3, servingStops},

	{"a done context ends the wait", bubble | drains | queued, cancelEndsWait},
	{"cancelling makes room in the queue", bubble | drains | queued | bounded, cancelMakesRoom},
	{"cancelling serves who now fits", bubble | finite | pair | queued | oldest | room3, cancelServes},
	{"who cancels keeps nothing", bubble | drains | queued, cancelKeepsNothing},
	{"of grant and cancel one wins", bubble | finite | queued | held, grantOrCancel},

	{"retry after is exact", bubble | finite | automatic, retryAfterExact},
	{"retry after counts the queue ahead", bubble | finite | automatic | queued, retryAfterQueue},
	{"retry after stands only where time helps", 0, retryAfterAbsent},
	{"a hopeless deadline is rejected at once", bubble | finite | automatic | queued, hopelessDeadline},
	{"who waits is served on time", bubble | finite | automatic | queued, servedOnTime},
	{"automatic replenishment", bubble | finite | automatic, automaticReplenishment},
	{"manual replenishment", bubble | finite | manual, manualReplenishment},
	{"idle time earns no credit", bubble | finite, idleEarnsNothing},
	{"idle is when every permit is available", idler, idleFor},

	{"a lease is released once", finite | held, releasedOnce},
	{"a lease of long ago releases nothing", finite | held, staleLease},
	{"a release brings back no time", finite | timed | unheld, releaseOfNothing},
	{"a refund undoes the grant once", finite | refunder, refundOnce},
	{"a refund serves who waits", bubble | finite | queued | refunder, refundServes},
	{"metadata is in order", 0, metadataInOrder},
	{"errors say what the lease says", 0, errorsMatch},
	{"statistics add up", reporter, statisticsAddUp},
	{"available is what can be taken", 0, availableBounds},
	{"many at once get no more than there is", finite, manyAtOnce},
	{"never more held than the limit", finite | held, neverMoreHeld},
	{"a release comes before the grant it makes room for", finite | held | long, releaseComesBefore},

	{"close refuses from then on", closer, closeRefuses},
	{"close ends every wait", bubble | drains | queued | closer, closeEndsWaits},
}
