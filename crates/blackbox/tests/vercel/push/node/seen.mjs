// Waiting for what happens.

/** What happened so far, and a way to wait for more: for no longer than nothing here takes. */
export class Seen extends Array {
  #waiting = new Set()

  static get [Symbol.species] () {
    return Array
  }

  push (...things) {
    super.push(...things)
    this.changed()
  }

  changed () {
    for (const look of this.#waiting) look()
  }

  /** Waits until `condition` holds, and returns what that was. */
  until (condition, withinSeconds = 60) {
    return new Promise((resolve, reject) => {
      const over = setTimeout(() => {
        this.#waiting.delete(look)
        const shown = JSON.stringify(this, (key, value) => key === 'raw' ? undefined : value).slice(0, 4_000)
        reject(new Error(`not within ${withinSeconds} s: ${condition}; there was ${shown}`))
      }, withinSeconds * 1_000)
      const look = () => {
        const value = condition(this)
        if (!value) return
        clearTimeout(over)
        this.#waiting.delete(look)
        resolve(value)
      }
      this.#waiting.add(look)
      look()
    })
  }

  count (number) {
    return this.until(({ length }) => length >= number)
  }
}

/** A promise that is resolved from outside. */
export function signal () {
  let give
  const given = new Promise((resolve) => { give = resolve })
  return { give, given }
}
