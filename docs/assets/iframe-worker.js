// The search runs in a worker, and browsers allow none on pages opened from the file system. There it runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.scope = frame.contentWindow;
      this.scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = this.load(address);
      this.scope.importScripts = (...addresses) => Promise.all(addresses.map((each) => this.load(each)));
    }
    load(address) {
      const script = this.scope.document.createElement("script");
      script.src = address;
      const loaded = new Promise((resolve) => script.addEventListener("load", resolve));
      this.scope.document.body.append(script);
      return loaded;
    }
    postMessage(data) {
      this.ready.then(() => this.scope.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.scope.frameElement.remove();
    }
  };
}
