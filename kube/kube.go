// Package kube has the words of list and watch that clients need besides apimachinery's: what
// an error of a request means and what to do next ([Classify], [RetryDelay]), why a
// [ResourceVersion] is too old ([WhyExpired]), which of two is older
// ([CompareResourceVersion]), and which objects belong to a [Shard] of a collection.
//
// classify.go has the outcomes, expired.go the causes of a 410, rv.go resource versions, and
// shard.go shards.
package kube
