package main

// mode is a way to acknowledge.
type mode struct{ name, setting string }

// modes are both there are: what survives the process, and what is on disk.
func modes() []mode {
	const name = "AQUIFER_PEBBLE_FLUSH_INTERVAL_MS"
	return []mode{{"flush", name + "=100"}, {"sync", name + "=0"}}
}

// oneByOne is a pace at which a target gets one call at a time, in the order in which they came.
const oneByOne = `
defaults: {rps: 100000, max_concurrent: 1}
`
