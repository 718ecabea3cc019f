package main

import (
	"fmt"
	"slices"
	"time"
)

// tolerance is how much a figure may grow over the time that is judged and still count as flat: the
// larger of the two.
type tolerance struct {
	relative float64 // of the median
	absolute float64
}

// trend is how a figure moved.
type trend struct {
	Name    string  `json:"name"`
	Samples int     `json:"samples"`
	First   float64 `json:"first_third_median"`
	Last    float64 `json:"last_third_median"`
	Min     float64 `json:"min"`
	Max     float64 `json:"max"`
	Growth  float64 `json:"growth"`  // over the time that is judged, by the slope
	Allowed float64 `json:"allowed"` // growth that still counts as flat
	Flat    bool    `json:"flat"`
}

// minSamples is how many samples a judgement takes.
const minSamples = 6

// judge says whether a figure is flat. The slope is that of Theil and Sen, the median of the slopes
// between all pairs of samples, so that a compaction or a collection now and then does not decide.
func judge(name string, at []time.Duration, values []float64, t tolerance) trend {
	tr := trend{Name: name, Samples: len(values)}
	if len(values) == 0 {
		return tr
	}
	third := max(1, len(values)/3)
	tr.First, tr.Last = median(values[:third]), median(values[len(values)-third:])
	tr.Min, tr.Max = slices.Min(values), slices.Max(values)
	var slopes []float64
	for i := range values {
		for j := i + 1; j < len(values); j++ {
			if d := (at[j] - at[i]).Seconds(); d > 0 {
				slopes = append(slopes, (values[j]-values[i])/d)
			}
		}
	}
	tr.Growth = median(slopes) * (at[len(at)-1] - at[0]).Seconds()
	tr.Allowed = max(t.relative*median(values), t.absolute)
	tr.Flat = len(values) >= minSamples && tr.Growth <= tr.Allowed
	return tr
}

// sample is what the node used at one moment of a soak.
type sample struct {
	At         time.Duration `json:"at_ns"` // since the start of the load
	Start      int           `json:"start"` // which start of the node, from 1
	RSS        int64         `json:"rss_bytes"`
	Goroutines int           `json:"goroutines"`
	Files      int           `json:"open_files"`
	Database   int64         `json:"database_bytes"`
	Delivered  int64         `json:"delivered"` // webhooks so far
}

// csvHead names the columns of csv.
const csvHead = "seconds,start,rss_bytes,goroutines,open_files,database_bytes,delivered"

func (s sample) csv() string {
	return fmt.Sprintf("%.1f,%d,%d,%d,%d,%d,%d", s.At.Seconds(), s.Start, s.RSS, s.Goroutines, s.Files, s.Database, s.Delivered)
}

// trends judges the samples from the given moment on. The absolute tolerances of goroutines and files
// are for connections: when the machine stalls for a moment, the crowd behind it opens some, and they
// stay until they have been idle for a while.
func trends(samples []sample, from time.Duration) []trend {
	var at []time.Duration
	var rss, goroutines, files, database []float64
	for _, s := range samples {
		if s.At < from {
			continue
		}
		at = append(at, s.At)
		rss, goroutines = append(rss, float64(s.RSS)), append(goroutines, float64(s.Goroutines))
		files, database = append(files, float64(s.Files)), append(database, float64(s.Database))
	}
	return []trend{
		judge("RSS, bytes", at, rss, tolerance{relative: 0.10, absolute: 16e6}),
		judge("goroutines", at, goroutines, tolerance{relative: 0.10, absolute: 300}),
		judge("open files", at, files, tolerance{relative: 0.10, absolute: 100}),
		judge("database, bytes", at, database, tolerance{relative: 0.15, absolute: 64e6}),
	}
}
